import { PageBody } from '../../components/page.tsx';

export function Page() {
  return <PageBody title="Keys">Not built yet</PageBody>;
}
