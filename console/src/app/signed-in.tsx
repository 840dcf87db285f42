import type { ReactNode } from 'react';
import { ApiError } from '../api/client.ts';
import { queryClient, useRead } from '../api/queries.ts';
import { CurrentSession } from '../api/session.ts';
import { Loading } from '../components/loaded.tsx';
import { Problem } from '../components/problem.tsx';
import { SignIn } from '../components/sign-in-form.tsx';

/** Shows its children to a person who is signed in, and the sign-in to others at the same address. */
export function SignedIn(props: { children: ReactNode }) {
  const read = useRead('getSession');
  const { data, error, isPending, refetch } = read;
  if (isSignedOut(error)) {
    // A person who worked here keeps the page with what was written in it.
    if (data) {
      return (
        <CurrentSession value={data}>
          {props.children}
          <SignIn again={data} onDone={() => queryClient.invalidateQueries()} />
        </CurrentSession>
      );
    }
    return <SignIn onDone={() => queryClient.invalidateQueries()} />;
  }
  if (data) return <CurrentSession value={data}>{props.children}</CurrentSession>;
  return isPending ? <Loading /> : <Problem error={error} onRetry={() => refetch()} />;
}

function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401;
}

/** After a refusal of any request, asks whether the session has ended. */
queryClient.getQueryCache().subscribe(({ query, type }) => {
  if (type !== 'updated' || query.queryKey[0] === 'getSession' || !isSignedOut(query.state.error)) return;
  void queryClient.invalidateQueries({ queryKey: ['getSession'] });
});
queryClient.getMutationCache().subscribe(({ mutation }) => {
  if (isSignedOut(mutation?.state.error)) void queryClient.invalidateQueries({ queryKey: ['getSession'] });
});
