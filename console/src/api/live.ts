import { useEffect, useSyncExternalStore } from 'react';
import { apiUrl, call, type OperationId } from './client.ts';
import { queryClient } from './queries.ts';

/** The state of the one stream of events of this tab. */
export type LiveState = 'connecting' | 'live' | 'lost';

/** Which replies an event makes old, by the first word of its type. */
const readAgain: Readonly<Record<string, readonly OperationId[]>> = {
  sandbox: [
    ...(['listSandboxes', 'getSandbox', 'getSandboxStats', 'listSandboxEvents', 'getSandboxCost'] as const),
    ...(['listProjectSandboxes', 'listProjects'] as const),
  ],
  template: ['listTemplates', 'getTemplate', 'getTemplateImport', 'listImportJobs', 'getImportJob'],
  budget: ['getBudget', 'getBudgetStatus', 'listBudgetMessages', 'listNotifications'],
  payment: [
    ...(['listPaymentMethods', 'listPaymentIntents', 'getPaymentIntent', 'listInvoices', 'getInvoice'] as const),
    ...(['getBalance', 'listBalanceChanges', 'listNotifications'] as const),
  ],
  subscription: ['getSubscription', 'listSubscriptionHistory', 'getCurrentBilling', 'listBillingPeriods'],
  exec: ['getActiveExec'],
};
/** Events come in bursts; the pages read again at most once in this time. */
const gatherMs = 400;

let state: LiveState = 'connecting';
const listeners = new Set<() => void>();

function change(next: LiveState): void {
  state = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useLiveState = () => useSyncExternalStore(subscribe, () => state);

/**
 * Follows the events of the account while the component is there and the tab is visible: a browser has only six
 * connections to a server without HTTP/2, so hidden tabs have none.
 */
export function useLiveEvents(): void {
  useEffect(() => {
    const types = call('listEventTypes').then(({ event_types }) => event_types.map(({ type }) => type));
    let close: (() => void) | null = null;
    let isFirst = true;
    const follow = () => {
      close?.();
      close = document.hidden ? null : openStream(types, isFirst);
      isFirst = false;
    };
    follow();
    document.addEventListener('visibilitychange', follow);
    return () => {
      document.removeEventListener('visibilitychange', follow);
      close?.();
      change('connecting');
    };
  }, []);
}

/** How long to wait after a refusal, after which the browser does not connect again by itself. */
const refusedMs = 5000;

/**
 * @param types of the events: an event source tells each type apart
 * @param isFirst false: something may have changed since the last stream
 * @returns a function that closes the stream
 */
function openStream(types: Promise<string[]>, isFirst: boolean): () => void {
  const source = new EventSource(apiUrl('/v1/events/stream'));
  const readAll = () => queryClient.invalidateQueries();
  const stale = new Set<OperationId>();
  let gathering: number | undefined;
  let waiting: number | undefined;
  let closeNext: (() => void) | undefined;
  let wasLost = !isFirst;
  const onEvent = ({ type }: MessageEvent<string>) => {
    stale.add('listNewestEvents');
    for (const id of readAgain[type.split('.')[0]!] ?? []) stale.add(id);
    gathering ??= window.setTimeout(() => {
      gathering = undefined;
      for (const id of stale) void queryClient.invalidateQueries({ queryKey: [id] });
      stale.clear();
    }, gatherMs);
  };
  void types.then((all) => {
    for (const type of all) source.addEventListener(type, onEvent);
  }, readAll);
  source.addEventListener('ready', () => {
    change('live');
    if (wasLost) void readAll();
    wasLost = false;
  });
  source.addEventListener('many', readAll);
  source.addEventListener('error', () => {
    wasLost = true;
    change('lost');
    if (source.readyState !== EventSource.CLOSED) return;
    // If the session has ended, the next read says so.
    void queryClient.invalidateQueries({ queryKey: ['getSession'] });
    waiting = window.setTimeout(() => {
      closeNext = openStream(types, false);
    }, refusedMs);
  });
  return () => {
    window.clearTimeout(gathering);
    window.clearTimeout(waiting);
    source.close();
    closeNext?.();
  };
}
