import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { GatewayLimits } from '../../../gateway/connection-limits.ts';
import { MemoryGateway } from '../memory-gateway.ts';
import { SecondTenant } from '../second-tenant.ts';

const SAMPLE_INTERVAL_MS = 25;

export interface FloodResult {
  /** Resident memory of the gateway's processes together: before, and the most during the flood. */
  rssBytes: { before: number; most: number };
  /** Of the gateway's event loop during the flood. */
  longestDelayMs: number;
  /** Latencies of another tenant, milliseconds. */
  secondTenantMs: { before: number[]; during: number[] };
  /** Connections of the flood that the gateway has closed. */
  closed: number;
  bytesSent: number;
  /** Processes of the gateway that ended. */
  exits: number;
  /** What a process that serves says once the flood is over and its connections are gone. */
  afterwards: { connections: number; liveBytes: number };
}

/** Plays one flood against a gateway of one process, every part in a process of its own. */
export async function playFlood(
  name: string,
  durationMs: number,
  limits: Partial<GatewayLimits> = {},
): Promise<FloodResult> {
  const children: ChildProcess[] = [];
  const start = (program: string, ...args: string[]) => {
    const child = fork(path.join(import.meta.dirname, '../programs', program), args, {
      env: { ...process.env, NODE_OPTIONS: '' },
      execArgv: [],
    });
    children.push(child);
    return child;
  };
  const [routes] = await once(start('flooded-sandboxes.ts'), 'message');
  const second = await SecondTenant.start();
  const gateway = await MemoryGateway.start([...routes, { sandboxId: 'sbx-second', agentPort: second.port }], {
    processes: 1,
    limits,
  });
  try {
    await second.begin(gateway.port);
    second.label('plain');
    await delay(durationMs / 2);
    second.label(null);
    const [idle] = await gateway.states();
    const result: FloodResult = {
      rssBytes: { before: idle!.rss, most: 0 },
      longestDelayMs: 0,
      secondTenantMs: { before: [], during: [] },
      closed: 0,
      bytesSent: 0,
      exits: 0,
      afterwards: { connections: 0, liveBytes: 0 },
    };
    const flood = start('flood.ts', name, String(gateway.port));
    await once(flood, 'message');
    flood.send('start');
    second.label('hostile');
    for (const endsAt = performance.now() + durationMs; performance.now() < endsAt; await delay(SAMPLE_INTERVAL_MS)) {
      result.rssBytes.most = Math.max(result.rssBytes.most, gateway.memoryBytes);
    }
    second.label(null);
    flood.send('stop');
    const [{ closed, bytesSent }] = await once(flood, 'message');
    Object.assign(result, { closed, bytesSent });
    const [state] = await gateway.states();
    result.longestDelayMs = state!.longestDelayMs;
    const samples = await second.finish();
    result.secondTenantMs = { before: samples.plain, during: samples.hostile };
    result.exits = gateway.lines('a gateway process ended').length;
    result.afterwards = { connections: state!.open.connections, liveBytes: state!.liveBytes };
    return result;
  } finally {
    for (const child of children) if (child.connected) child.disconnect();
    second.kill();
    await gateway.stop();
  }
}
