import type { ErrorComponentProps } from '@tanstack/react-router';
import { Problem } from '../components/problem.tsx';

/** Why a page could not be shown. The frame around it stays. */
export function PageProblem({ error, reset }: ErrorComponentProps) {
  if (isOfFile(error) && reloadOnce(error.message)) return null;
  return <Problem error={error} onRetry={reset} />;
}

/** After an upgrade of the platform, the files of an open page are gone. */
function isOfFile(error: unknown): error is Error {
  return error instanceof Error && /dynamically imported module|Unable to preload CSS/.test(error.message);
}

/** @returns false: this tab has been loaded again for this file before */
function reloadOnce(message: string): boolean {
  // The router's own key: it does the same for the scripts of pages, but not for their styles and for charts.
  const key = `tanstack_router_reload:${message}`;
  if (sessionStorage.getItem(key)) return false;
  sessionStorage.setItem(key, '1');
  window.location.reload();
  return true;
}
