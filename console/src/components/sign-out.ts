import { call } from '../api/client.ts';
import { queryClient } from '../api/queries.ts';
import { useNotice } from './notices.tsx';

/** Ends the session of this browser, forgets what was read, and shows the sign-in. */
export function useSignOut(): () => Promise<void> {
  const notify = useNotice();
  return async () => {
    try {
      await call('endSession');
      queryClient.clear();
      window.location.assign(document.baseURI);
    } catch (error) {
      notify((error as Error).message);
    }
  };
}
