import { Counter, Gauge, type Registry } from 'prom-client';
import type { LastHopCounts } from './last-hop/server.ts';

/** Metrics of the tunnels from other machines that end in this process. */
export function showTunnels(registry: Registry, counts: () => LastHopCounts): void {
  const registers = [registry];
  new Counter({
    name: 'last_hop_tunnels_total',
    help: 'Tunnels from other machines to sandboxes of this one that were opened',
    registers,
    collect() {
      this.reset();
      this.inc(counts().opened);
    },
  });
  new Gauge({
    name: 'last_hop_tunnels',
    help: 'Tunnels that are open',
    registers,
    collect() {
      this.set(counts().open);
    },
  });
  new Counter({
    name: 'last_hop_refusals_total',
    help: 'Connections that got no tunnel, by reason',
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset();
      for (const [reason, count] of Object.entries(counts().refused)) this.inc({ reason }, count);
    },
  });
  new Counter({
    name: 'last_hop_bytes_total',
    help: 'Bytes through tunnels, by direction, without what TLS adds',
    labelNames: ['direction'],
    registers,
    collect() {
      const { bytesToSandboxes, bytesFromSandboxes } = counts();
      this.reset();
      this.inc({ direction: 'to_sandbox' }, bytesToSandboxes);
      this.inc({ direction: 'from_sandbox' }, bytesFromSandboxes);
    },
  });
}
