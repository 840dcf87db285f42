import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import {
  type HostileAnswer,
  hostileAnswers,
  redirectToReplacement,
  startReplacement,
} from '../support/replaced-agent.ts';
import { LocalHost, nothing, shell } from './local-host.ts';

/** Root in a sandbox answers in the agent's place. The host continues, and ends the sandbox on request. */
let host: LocalHost;
beforeEach(async () => {
  host = await LocalHost.open();
}, 300_000);
afterEach(async () => {
  await host.driver.reconcile([]);
  expect(await host.inventory()).toMatchObject(nothing);
  await host.close();
});

async function replaceAgent(place: SandboxPlace, spec: SandboxSpec, hostile: HostileAnswer): Promise<void> {
  expect(await shell(place, spec, startReplacement(hostile))).toEqual({ exitCode: 0, output: '' });
  const { processes } = await host.inventory();
  redirectToReplacement(processes[0]!, place.agentPort);
}

test.each(hostileAnswers)(
  'an agent that $what: a resume gives up in time, and a stop overtakes it',
  async (hostile) => {
    const spec = host.spec();
    const place = await host.driver.create(spec);
    await replaceAgent(place, spec, hostile);
    await host.driver.close();
    // Longer than the time between the resume and the stop on a busy machine.
    await host.start({ agentStartTimeoutSeconds: 6 });
    await host.driver.pause(spec.sandboxId);

    const started = performance.now();
    await expect(host.driver.resume(spec)).rejects.toMatchObject({ code: 'agent_not_answering' });
    expect(performance.now() - started).toBeLessThan(40_000);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');

    const resuming = host.driver.resume(spec).catch((error) => error);
    const waiting = host.driver.resume(spec).catch((error) => error);
    await sleep(300);
    const asked = performance.now();
    await host.driver.stop(spec.sandboxId);
    expect(performance.now() - asked).toBeLessThan(20_000);
    expect([await resuming, await waiting]).toMatchObject([{ code: 'aborted' }, { code: 'aborted' }]);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('exited');
  },
  300_000,
);

test('endless cold starts of one account do not delay another account, and can be stopped', async () => {
  const timed = async () => {
    const spec = host.spec({ accountId: 'acc-neighbour' });
    const started = performance.now();
    await host.driver.create(spec);
    const tookMs = performance.now() - started;
    await host.driver.remove(spec.sandboxId);
    return tookMs;
  };
  const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
  const usual = median([await timed(), await timed(), await timed()]);

  // More than the permits for cold starts. Every program that starts waits for a writer of the pipe.
  const specs = Array.from({ length: 2 * os.availableParallelism() + 2 }, () =>
    host.spec({ accountId: 'acc-hostile' }),
  );
  for (const spec of specs) {
    const place = await host.driver.create(spec);
    await shell(place, spec, 'mkfifo /etc/ld.so.preload');
    await host.driver.stop(spec.sandboxId);
  }
  const resumes = specs.map((spec) => host.driver.resume(spec).catch((error) => error));
  await sleep(1000);
  const meanwhile = median([await timed(), await timed(), await timed()]);
  process.stdout.write(`create: usually ${usual.toFixed(0)} ms, beside hanging ones ${meanwhile.toFixed(0)} ms\n`);
  expect(meanwhile).toBeLessThan(Math.max(15_000, 3 * usual));

  const asked = performance.now();
  await Promise.all(specs.map(({ sandboxId }) => host.driver.remove(sandboxId)));
  expect(performance.now() - asked).toBeLessThan(40_000);
  for (const outcome of await Promise.all(resumes)) expect(outcome).toMatchObject({ code: 'aborted' });
}, 300_000);
