import fs from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { agentPidOf } from './machine.ts';
import { remains, wrongTotals } from './matrix.ts';
import { small } from './transitions.ts';
import { withPlatform } from './with-platform.ts';

/** A part that is suspended keeps its connections open and answers nothing. */
const hangMs = 120_000;

let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

const create = () => platform.api.createSandbox(small);
const post = (sandboxId: SandboxId, what: string, body = {}) =>
  platform.api.request<SandboxView>('POST', `/v1/sandboxes/${sandboxId}/${what}`, body);
const get = (path: string) => platform.api.request('GET', path);

/** A process and everything that it started. */
function withDescendants(pid: number): number[] {
  const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
  return [pid, ...children.flatMap((child) => withDescendants(Number(child)))];
}

/** Suspends a process with everything that it started. @returns continues them */
function suspend(pid: number): () => void {
  const pids = withDescendants(pid);
  const signal = (name: NodeJS.Signals) => {
    for (const each of pids) {
      try {
        process.kill(each, name);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  };
  signal('SIGSTOP');
  return () => signal('SIGCONT');
}

describe.each(['temporal', 'postgres'] as const)('%s hangs', (part) => {
  test('every command is answered meanwhile; what is refused does not happen later, and what is accepted does', async () => {
    const paused = await create();
    const ending = await create();
    const lengthened = await create();
    const goOn = suspend(platform.pid(part));
    const continued = delay(hangMs).then(goOn);
    let isHanging = true;
    void continued.then(() => {
      isHanging = false;
    });
    const commands = {
      create: platform.api.request<SandboxView>('POST', '/v1/sandboxes', { ...small, name: `while-${part}-hangs` }),
      pause: post(paused.sandbox_id, 'pause'),
      timeout: post(lengthened.sandbox_id, 'timeout', { timeout: 1234 }),
      terminate: post(ending.sandbox_id, 'terminate'),
    };
    try {
      expect((await get('/healthz')).status).toBe(200);
      const ready = await get('/readyz');
      expect(ready.status).toBe(503);
      const list = await get('/v1/sandboxes');
      expect(list.status).toBe(part === 'postgres' ? 503 : 200);
      const statuses = Object.fromEntries(
        await Promise.all(Object.entries(commands).map(async ([name, reply]) => [name, (await reply).status] as const)),
      );
      expect(isHanging).toBe(true);
      expect(statuses).toEqual(
        part === 'postgres'
          ? { create: 503, pause: 503, timeout: 503, terminate: 503 }
          : { create: 202, pause: 503, timeout: 503, terminate: 202 },
      );
    } finally {
      await continued;
    }
    await platform.untilReady();
    if (part === 'temporal') {
      const { sandbox_id: made } = (await commands.create).body.data;
      await platform.api.untilStatus(made, 'running');
      await platform.api.untilStatus(ending.sandbox_id, 'terminated');
    }
    // The workflows have received everything that was sent before these commands.
    for (const sandbox of [paused, lengthened]) {
      await until(async () => (await post(sandbox.sandbox_id, 'timeout', { timeout: 900 })).status === 200, 60_000);
      expect(await platform.api.sandbox(sandbox.sandbox_id)).toMatchObject({ status: 'running', timeout: 900 });
    }
    expect(await wrongTotals(platform)).toEqual([]);
  }, 600_000);
});

test('while an agent hangs, its sandbox can be ended, and others answer', async () => {
  const hanging = await create();
  const other = await create();
  const goOn = suspend(agentPidOf(platform.dataDir, hanging.sandbox_id));
  const continued = delay(hangMs).then(goOn);
  try {
    const run = (sandbox: SandboxView) => post(sandbox.sandbox_id, 'exec', { command: 'true', wait: true });
    const waiting = run(hanging);
    expect((await run(other)).status).toBeLessThan(300);
    expect((await get('/readyz')).status).toBe(200);
    expect((await waiting).status).toBeGreaterThanOrEqual(500);
    expect((await post(hanging.sandbox_id, 'terminate')).status).toBe(202);
    await platform.api.untilStatus(hanging.sandbox_id, 'terminated');
  } finally {
    await continued;
  }
}, 600_000);

test('everything is cleaned up', async () => {
  expect(await remains(platform)).toEqual([]);
}, 180_000);
