import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Project list">Not built yet</PageBody>;
}
