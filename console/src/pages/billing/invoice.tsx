import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Invoice">Not built yet</PageBody>;
}
