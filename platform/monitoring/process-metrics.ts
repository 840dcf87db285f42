import { collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client';

/** Connections of a process to Postgres. */
export interface PoolCounts {
  total: number;
  idle: number;
  /** Calls that wait for a connection. */
  waiting: number;
}

/**
 * Made once for a process, even if it makes several registries: they have an observer of garbage collections and a timer
 * of the event loop, which cannot be removed.
 */
let defaults: Metric[] | undefined;

/**
 * The interval at which the delay of the event loop is measured, and so the smallest delay that is shown. Each
 * measurement wakes the process. The usual 10 ms would be most of the work of an idle process.
 */
const loopDelayEveryMs = 100;

function makeDefaults(): Metric[] {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: loopDelayEveryMs });
  return registry.getMetricsAsArray() as unknown as Metric[];
}

/**
 * The metrics of every process: processor, memory, file descriptors, garbage collection, the delay of its event loop
 * (`nodejs_eventloop_lag_…`), and its connections to Postgres.
 * @param pool null: the process has no connections to Postgres
 */
export function createProcessRegistry(pool: (() => PoolCounts) | null): Registry {
  const registry = new Registry();
  defaults ??= makeDefaults();
  for (const metric of defaults) registry.registerMetric(metric);
  if (!pool) return registry;
  new Gauge({
    name: 'postgres_pool_connections',
    help: 'Connections to Postgres that are used or idle, and calls that wait for one',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const { total, idle, waiting } = pool();
      this.set({ state: 'used' }, total - idle);
      this.set({ state: 'idle' }, idle);
      this.set({ state: 'waiting' }, waiting);
    },
  });
  return registry;
}
