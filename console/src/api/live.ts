import { useEffect, useSyncExternalStore } from 'react';
import { apiUrl, type OperationId } from './client.ts';
import { queryClient } from './queries.ts';

/** The state of the one stream of events of this tab. */
export type LiveState = 'connecting' | 'live' | 'lost';

/** An event of the platform: something that the reader may see has changed. */
export interface LiveEvent {
  event_id: string;
  type: string;
  object_id: string;
  created_at: string;
  sandbox_id?: string;
}

/** Which replies an event makes old, by the first word of its type. */
const readAgain: Readonly<Record<string, readonly OperationId[]>> = {
  sandbox: ['listSandboxes', 'getSandbox', 'getSandboxStats', 'listProjectSandboxes', 'listProjects'],
  template: ['listTemplates', 'getTemplate', 'getTemplateImport', 'listImportJobs', 'getImportJob'],
  budget: ['getBudgetStatus', 'listBudgetMessages', 'listNotifications'],
  payment: ['listPaymentMethods', 'listPaymentIntents', 'listInvoices', 'getBalance', 'listNotifications'],
  subscription: ['getSubscription', 'listSubscriptionHistory', 'getCurrentBilling'],
  invoice: ['listInvoices', 'getInvoice', 'getBalance'],
  quota: ['getQuota', 'listQuotaRequests', 'listQuotaRequestsOfAccount', 'listNotifications'],
};
/** Events come in bursts; the pages read again at most once in this time. */
const gatherMs = 400;

let state: LiveState = 'connecting';
let latest: readonly LiveEvent[] = [];
const listeners = new Set<() => void>();

function change(next: { state?: LiveState; latest?: readonly LiveEvent[] }): void {
  state = next.state ?? state;
  latest = next.latest ?? latest;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useLiveState = () => useSyncExternalStore(subscribe, () => state);
/** The newest events since the tab was opened, newest first. */
export const useLatestEvents = () => useSyncExternalStore(subscribe, () => latest);

/** Follows the events of the account while the component is there. The browser connects again by itself. */
export function useLiveEvents(): void {
  useEffect(() => {
    const stale = new Set<OperationId>();
    let timer: number | undefined;
    const source = new EventSource(apiUrl('/v1/events/stream'));
    const readAll = () => queryClient.invalidateQueries();
    const onEvent = ({ data }: MessageEvent<string>) => {
      const event = JSON.parse(data) as LiveEvent;
      change({ latest: [event, ...latest].slice(0, 20) });
      for (const id of readAgain[event.type.split('.')[0]!] ?? []) stale.add(id);
      timer ??= window.setTimeout(() => {
        timer = undefined;
        for (const id of stale) void queryClient.invalidateQueries({ queryKey: [id] });
        stale.clear();
      }, gatherMs);
    };
    let wasLost = false;
    source.addEventListener('ready', () => {
      change({ state: 'live' });
      // What happened while the stream was lost is unknown.
      if (wasLost) void readAll();
      wasLost = false;
    });
    source.addEventListener('event', onEvent);
    source.addEventListener('many', readAll);
    source.addEventListener('error', () => {
      wasLost = true;
      change({ state: 'lost' });
      // The browser gives up after a refusal, for example when the session has ended. Any read then says why.
      if (source.readyState === EventSource.CLOSED) void readAll();
    });
    return () => {
      window.clearTimeout(timer);
      source.close();
      change({ state: 'connecting', latest: [] });
    };
  }, []);
}
