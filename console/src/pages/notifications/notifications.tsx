import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Notifications">Not built yet</PageBody>;
}
