import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Audit log">Not built yet</PageBody>;
}
