import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="User list">Not built yet</PageBody>;
}
