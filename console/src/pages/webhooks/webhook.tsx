import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Webhook">Not built yet</PageBody>;
}
