import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { lifeQuery } from '../../workflows/sandboxes/life/messages.ts';
import { until } from '../support/until.ts';
import { directFaults, fault } from './direct-faults.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { remains, wrongTotals } from './matrix.ts';
import { withPlatform } from './with-platform.ts';

/** Sandboxes that are paused and resumed at the same time, so that a fault finds them at different points. */
const atOnce = 5;
/** From the first requests to the fault: during the claim, the work of the host, the reply and the adoption. */
const delaysMs = [4, 12, 25, 45, 80];
const wanted = { cpu_count: 1, memory_mb: 256, storage_gb: 10, timeout: 3600, allow_internet_access: false };

let platform: FaultyPlatform;
withPlatform((started) => {
  platform = started;
});

interface Moved {
  sandboxId: SandboxId;
  /** A process of the sandbox, which no pause may end. */
  pid: string;
  /** The status after the last command, if that was acknowledged. */
  status: string | null;
}

async function run(sandboxId: SandboxId, command: string): Promise<string> {
  const path = `/v1/sandboxes/${sandboxId}/exec`;
  const { status, body } = await platform.api.request('POST', path, { command, wait: true });
  expect(`${status} ${body.error ?? ''}`).toBe('200 ');
  return (body as unknown as { stdout: string }).stdout.trim();
}

async function start(): Promise<Moved> {
  const sandbox = await platform.api.createSandbox(wanted);
  const sandboxId = sandbox.sandbox_id as SandboxId;
  const pid = await run(sandboxId, 'setsid sleep 100000 >/dev/null 2>&1 </dev/null & echo $!');
  return { sandboxId, pid, status: 'running' };
}

/** Pauses and resumes until a command is not acknowledged, at most twice. */
async function move(moved: Moved, counts: { acknowledged: number; failed: number }): Promise<void> {
  for (const command of ['pause', 'resume', 'pause', 'resume'] as const) {
    try {
      moved.status = null;
      const path = `/v1/sandboxes/${moved.sandboxId}/${command}`;
      const { status, body } = await platform.api.request<SandboxView>('POST', path, {});
      if (status !== 200) throw new Error(`${status} ${body.error}`);
      moved.status = body.data.status;
      expect(moved.status).toBe(command === 'pause' ? 'paused' : 'running');
      counts.acknowledged += 1;
    } catch {
      counts.failed += 1;
      return;
    }
  }
}

/** Waits until row and workflow agree on a stable status. */
async function settled(sandboxId: SandboxId): Promise<string> {
  let seen = '';
  const agree = async () => {
    const [row] = await platform.rows<{ status: string; moved_directly: boolean }>(
      'select status, moved_directly from sandboxes where sandbox_id = ?',
      [sandboxId],
    );
    const handle = platform.temporal.workflow.getHandle(sandboxId);
    const life = await handle.query(lifeQuery).catch(() => null);
    seen = `row ${row!.status}, moved directly ${row!.moved_directly}, workflow ${life?.status}`;
    return !row!.moved_directly && ['running', 'paused'].includes(row!.status) && life?.status === row!.status;
  };
  await until(agree, 90_000).catch(() => {});
  expect(seen).toMatch(/^row (\w+), moved directly false, workflow \1$/);
  return seen.split(' ')[1]!.replace(',', '');
}

test.each(directFaults)(
  'pauses and resumes while %s has a %s lose nothing that was acknowledged, and no process',
  async (part, kind) => {
    const counts = { acknowledged: 0, failed: 0 };
    const all = await Promise.all(Array.from({ length: atOnce }, start));
    for (const delayMs of delaysMs) {
      const moving = Promise.all(all.map((moved) => move(moved, counts)));
      await delay(delayMs);
      await fault(platform, part, kind);
      await moving;
      await platform.untilReady();
      for (const { sandboxId, pid, status } of all) {
        const now = await settled(sandboxId);
        if (status !== null) expect(`${sandboxId} ${now}`).toBe(`${sandboxId} ${status}`);
        const { body } = await platform.api.request<SandboxView>('POST', `/v1/sandboxes/${sandboxId}/connect`, {});
        expect(body.data?.status ?? body.error).toBe('running');
        expect(await run(sandboxId, `kill -0 ${pid} && echo alive`)).toBe('alive');
      }
      const events = await platform.rows<{ types: string[] }>(
        `select array_agg(type order by sequence) as types from events
          where object_id = any(?::text[]) and type in ('sandbox.paused', 'sandbox.resumed') group by object_id`,
        [`{${all.map(({ sandboxId }) => sandboxId).join(',')}}`],
      );
      for (const { types } of events) {
        expect(types).toEqual(types.map((_, at) => (at % 2 === 0 ? 'sandbox.paused' : 'sandbox.resumed')));
      }
      expect(await wrongTotals(platform)).toEqual([]);
    }
    console.log(`${part} ${kind}: ${JSON.stringify(counts)}`);
    expect(await remains(platform)).toEqual([]);
  },
  900_000,
);
