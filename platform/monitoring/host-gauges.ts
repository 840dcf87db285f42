import { Gauge, type Registry } from 'prom-client';

/** The current figures of a host. */
export interface HostFigures {
  /** The measured capacity for more sandboxes. Negative: under pressure. Null: not measured yet. */
  free: { cpu: number; memoryMb: number; diskMb: number } | null;
  /** Resources that are used up. */
  shortOf: readonly string[];
  /** Frozen sandboxes that are ready to be used. */
  warmSandboxes: number;
  /** The part of the last minute in which sandboxes waited for a resource, 0 to 1. Null: not known. */
  pressure: Record<'cpu' | 'memory' | 'io', number> | null;
  /** Its sandboxes are frozen, because its lease is about to end or its disk is full. */
  isFenced: boolean;
}

const resources = ['cpu', 'memory', 'disk'] as const;
const mb = 1024 ** 2;

/** Gauges of one host. The target of the scrape identifies the host. */
export function createHostGauges(registry: Registry, read: () => HostFigures): void {
  const gauge = (name: string, help: string, collect: (gauge: Gauge<string>) => void, labelNames: string[] = []) => {
    new Gauge({
      ...{ name, help, labelNames, registers: [registry] },
      collect() {
        collect(this);
      },
    });
  };
  const freeGauge = (name: string, help: string, of: (free: NonNullable<HostFigures['free']>) => number) =>
    gauge(name, help, (target) => {
      const { free } = read();
      if (free) target.set(of(free));
      else target.remove();
    });
  freeGauge('host_free_cpu_cores', 'Cores that are free for more sandboxes', ({ cpu }) => cpu);
  freeGauge('host_free_memory_bytes', 'Memory that is free for more sandboxes', ({ memoryMb }) => memoryMb * mb);
  freeGauge('host_free_disk_bytes', 'Disk that is free for more sandboxes', ({ diskMb }) => diskMb * mb);
  gauge(
    'host_short_of',
    'Whether the host takes no sandboxes for lack of a resource',
    (target) => {
      for (const resource of resources) target.set({ resource }, Number(read().shortOf.includes(resource)));
    },
    ['resource'],
  );
  gauge('warm_pool_sandboxes', 'Frozen sandboxes that are ready to be used', (target) =>
    target.set(read().warmSandboxes),
  );
  gauge(
    'host_sandboxes_pressure_ratio',
    'The part of the last minute in which sandboxes waited for a resource',
    (target) => {
      for (const [resource, part] of Object.entries(read().pressure ?? {})) target.set({ resource }, part);
    },
    ['resource'],
  );
  gauge('host_fenced', 'Whether all sandboxes of the host are kept still', (target) =>
    target.set(Number(read().isFenced)),
  );
}
