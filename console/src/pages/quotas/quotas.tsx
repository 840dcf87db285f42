import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Quotas">Not built yet</PageBody>;
}
