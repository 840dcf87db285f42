import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Project">Not built yet</PageBody>;
}
