import { useEffect } from 'react';
import type { OperationId } from '../../api/client.ts';
import { queryClient } from '../../api/queries.ts';

const everyMs = 2000;

/** Reads operations again and again while something goes on of which no event tells. A hidden tab does not. */
export function useReadAgainWhile(goesOn: boolean, ...operations: readonly OperationId[]): void {
  const names = operations.join(' ');
  useEffect(() => {
    if (!goesOn) return;
    const timer = window.setInterval(() => {
      if (document.hidden) return;
      for (const name of names.split(' ')) void queryClient.invalidateQueries({ queryKey: [name] });
    }, everyMs);
    return () => window.clearInterval(timer);
  }, [goesOn, names]);
}
