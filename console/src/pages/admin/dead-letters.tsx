import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Dead letters">Not built yet</PageBody>;
}
