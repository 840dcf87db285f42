import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Workers">Not built yet</PageBody>;
}
