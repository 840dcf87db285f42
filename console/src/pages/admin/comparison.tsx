import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Comparison">Not built yet</PageBody>;
}
