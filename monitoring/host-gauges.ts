import { Gauge, type Registry } from 'prom-client';

/** What a host has now. */
export interface HostFigures {
  /** Measured room for more sandboxes; negative: under pressure. Null: not measured yet. */
  free: { cpu: number; memoryMb: number; diskMb: number } | null;
  /** Resources of which it has nothing left. */
  shortOf: readonly string[];
  /** Frozen sandboxes that are ready to be used. */
  warmSandboxes: number;
  /** Its sandboxes stand still, because its lease is about to end or its disk is full. */
  isFenced: boolean;
}

const resources = ['cpu', 'memory', 'disk'] as const;
const mb = 1024 ** 2;

/** Gauges of one host; the scrape's target says which. */
export function createHostGauges(registry: Registry, read: () => HostFigures): void {
  const gauge = (name: string, help: string, collect: (gauge: Gauge<string>) => void, labelNames: string[] = []) => {
    new Gauge({
      ...{ name, help, labelNames, registers: [registry] },
      collect() {
        collect(this);
      },
    });
  };
  const room = (name: string, help: string, of: (free: NonNullable<HostFigures['free']>) => number) =>
    gauge(name, help, (target) => {
      const { free } = read();
      if (free) target.set(of(free));
      else target.remove();
    });
  room('host_free_cpu_cores', 'Cores that are free for more sandboxes', ({ cpu }) => cpu);
  room('host_free_memory_bytes', 'Memory that is free for more sandboxes', ({ memoryMb }) => memoryMb * mb);
  room('host_free_disk_bytes', 'Disk that is free for more sandboxes', ({ diskMb }) => diskMb * mb);
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
  gauge('host_fenced', 'Whether all sandboxes of the host are kept still', (target) =>
    target.set(Number(read().isFenced)),
  );
}
