import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Usage">Not built yet</PageBody>;
}
