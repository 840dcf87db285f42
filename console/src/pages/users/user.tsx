import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="User">Not built yet</PageBody>;
}
