import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Template list">Not built yet</PageBody>;
}
