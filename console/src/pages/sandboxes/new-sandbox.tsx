import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="New sandbox">Not built yet</PageBody>;
}
