import { Gauge, type Registry } from 'prom-client';

/** The state of the whole platform according to its database. */
export interface PlatformFigures {
  /** Living sandboxes by status. */
  sandboxes: Record<string, number>;
  /** Hosts by state. */
  hosts: Record<string, number>;
  outbox: { waiting: number; dead: number; oldestSeconds: number };
  webhooks: { waiting: number; oldestDueSeconds: number; delivered: number; failed: number; disabledEndpoints: number };
  importJobs: Record<string, number>;
  /** The last comparison of ledger, invoices, charges and payment processor. Null: there was none. */
  reconciliation: { differences: number; endedAt: Date } | null;
  /** Usage events of the last seven days that were refused. */
  usageRefused: number;
  /** The last complete backup. Null: there was none. */
  backup: { endedAt: Date } | null;
}

/** Longer than any of the statements should take, and shorter than Prometheus waits. */
const readTimeoutMs = 5000;

/**
 * The state of the whole platform as gauges. All processes with these gauges show the same values, so aggregate them
 * with `max` and not `sum`. When the database is unreachable, `platform_figures_up` is 0 and the other gauges are
 * absent instead of outdated.
 */
export class PlatformGauges {
  readonly #read: () => Promise<PlatformFigures>;
  readonly #onError: (error: unknown) => void;
  readonly #gauges: Record<string, { gauge: Gauge<string>; isLabelled: boolean }> = {};
  readonly #up: Gauge;

  constructor(registry: Registry, read: () => Promise<PlatformFigures>, onError: (error: unknown) => void) {
    this.#read = read;
    this.#onError = onError;
    const gauge = (name: string, help: string, labelNames: string[] = []) => {
      const made = new Gauge({ name, help, labelNames, registers: [registry] });
      this.#gauges[name] = { gauge: made, isLabelled: labelNames.length > 0 };
    };
    this.#up = new Gauge({
      name: 'platform_figures_up',
      help: 'Whether the state of the platform could be read from the database',
      registers: [registry],
    });
    gauge('sandboxes', 'Living sandboxes by status', ['status']);
    gauge('hosts', 'Hosts by state: ready, draining, away, lost', ['state']);
    gauge(
      'outbox_entries',
      'Starts and signals of workflows that wait to be sent (waiting), or that failed too often (dead)',
      ['state'],
    );
    gauge('outbox_oldest_seconds', 'Age of the oldest start or signal that waits; 0: none waits');
    gauge('webhook_deliveries_waiting', 'Deliveries that wait for a relay');
    gauge('webhook_oldest_due_seconds', 'For how long the oldest delivery is due; 0: none is');
    gauge('webhook_deliveries_ended', 'Deliveries to present endpoints that succeeded, or failed for good', ['result']);
    gauge('webhook_endpoints_disabled', 'Endpoints that were turned off because they failed for long');
    gauge(
      'reconciliation_differences',
      'What differs between ledger, invoices, charges and payment processor, by the last comparison; -1: there was none',
    );
    gauge(
      'reconciliation_ended_seconds',
      'When the last comparison of ledger, invoices, charges and payment processor ended, in Unix seconds; 0: there was none',
    );
    gauge(
      'usage_events_refused',
      'Usage of the last seven days that was not recorded, because no sandbox or image can have used that much',
    );
    gauge('backup_ended_seconds', 'When the last complete backup ended, in Unix seconds; 0: there was none');
    gauge('import_jobs', 'Imports of images that are not over, by status', ['status']);
  }

  /** Reads all figures again. It never throws. */
  async refresh(): Promise<void> {
    const all = Object.values(this.#gauges);
    try {
      const figures = await withinTime(this.#read());
      for (const { gauge } of all) gauge.reset();
      this.#set(figures);
      this.#up.set(1);
    } catch (error) {
      for (const { gauge, isLabelled } of all) {
        if (isLabelled) gauge.reset();
        else gauge.remove();
      }
      this.#up.set(0);
      this.#onError(error);
    }
  }

  #set({
    sandboxes,
    hosts,
    outbox,
    webhooks,
    importJobs,
    reconciliation,
    usageRefused,
    backup,
  }: PlatformFigures): void {
    const byLabel = (name: string, label: string, counts: Record<string, number>) => {
      for (const [value, count] of Object.entries(counts)) this.#gauges[name]!.gauge.set({ [label]: value }, count);
    };
    byLabel('sandboxes', 'status', sandboxes);
    byLabel('hosts', 'state', hosts);
    byLabel('outbox_entries', 'state', { waiting: outbox.waiting, dead: outbox.dead });
    this.#gauges.outbox_oldest_seconds!.gauge.set(outbox.oldestSeconds);
    this.#gauges.webhook_deliveries_waiting!.gauge.set(webhooks.waiting);
    this.#gauges.webhook_oldest_due_seconds!.gauge.set(webhooks.oldestDueSeconds);
    byLabel('webhook_deliveries_ended', 'result', { delivered: webhooks.delivered, failed: webhooks.failed });
    this.#gauges.webhook_endpoints_disabled!.gauge.set(webhooks.disabledEndpoints);
    byLabel('import_jobs', 'status', importJobs);
    this.#gauges.usage_events_refused!.gauge.set(usageRefused);
    this.#gauges.reconciliation_differences!.gauge.set(reconciliation?.differences ?? -1);
    this.#gauges.backup_ended_seconds!.gauge.set((backup?.endedAt.getTime() ?? 0) / 1000);
    this.#gauges.reconciliation_ended_seconds!.gauge.set((reconciliation?.endedAt.getTime() ?? 0) / 1000);
  }
}

async function withinTime<T>(work: Promise<T>): Promise<T> {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => timeout.reject(new Error('the database did not answer in time')), readTimeoutMs);
  try {
    return await Promise.race([work, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
