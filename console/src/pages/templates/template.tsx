import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Template">Not built yet</PageBody>;
}
