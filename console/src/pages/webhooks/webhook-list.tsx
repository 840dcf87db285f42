import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Webhook list">Not built yet</PageBody>;
}
