import { useNavigate } from '@tanstack/react-router';
import { queryClient } from '../../api/queries.ts';
import { usePageSearch } from '../../components/page-search.ts';
import { SignIn } from '../../components/sign-in-form.tsx';

/** `/sign-in`, also with the `error` of an identity provider. */
export function Page() {
  const navigate = useNavigate();
  const [{ error }] = usePageSearch();
  const onDone = () => {
    queryClient.clear();
    void navigate({ to: '/' });
  };
  return <SignIn error={error} onDone={onDone} />;
}
