import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Sandbox">Not built yet</PageBody>;
}
