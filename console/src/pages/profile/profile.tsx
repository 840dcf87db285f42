import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Profile">Not built yet</PageBody>;
}
