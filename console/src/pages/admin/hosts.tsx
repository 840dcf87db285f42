import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Hosts">Not built yet</PageBody>;
}
