import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Import list">Not built yet</PageBody>;
}
