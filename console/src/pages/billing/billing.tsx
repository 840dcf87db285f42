import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Billing">Not built yet</PageBody>;
}
