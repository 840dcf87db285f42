import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="New template">Not built yet</PageBody>;
}
