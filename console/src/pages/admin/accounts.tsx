import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Accounts">Not built yet</PageBody>;
}
