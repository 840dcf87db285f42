import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SandboxExit } from '../../runtime/driver.ts';
import { uptimeSeconds } from '../../runtime/uptime.ts';
import { hangMount } from '../support/hanging-mount.ts';
import { until } from '../support/until.ts';
import { LocalHost, nothing, onHost, shell } from './local-host.ts';

/** Tests ends of sandboxes that were not requested, and how a restarted host handles them. */
let host: LocalHost;
let exits: SandboxExit[];
beforeEach(async () => {
  host = await LocalHost.open();
  exits = [];
  host.driver.onExit((exit) => exits.push(exit));
}, 300_000);
afterEach(() => host.closeEmpty());

/** Ends the host worker and starts another one. */
async function restart(): Promise<void> {
  await host.driver.close();
  await host.start();
  host.driver.onExit((exit) => exits.push(exit));
}

const created = async (overrides = {}) => {
  const spec = host.spec(overrides);
  return { spec, place: await host.driver.create(spec) };
};
/** Shim, first process and agent of the only sandbox. */
const pids = async () => {
  const { shims, processes } = await host.inventory();
  return { shim: shims[0]!, init: processes[0]!, agent: processes[1]! };
};
const exited = async () => {
  await until(() => exits.length > 0);
  return exits;
};

test('the end of a container is reported once, within five seconds, with the command’s output', async () => {
  const { spec, place } = await created({
    command: { entrypoint: ['/bin/sh', '-c'], cmd: ['printf "first\\nlast"; exec sleep 60'] },
  });
  await shell(place, spec, 'while [ ! -s /run/platform/command.tail ]; do sleep 0.02; done');
  process.kill((await pids()).init, 'SIGKILL');
  const expected = {
    sandboxId: spec.sandboxId,
    run: 1,
    exitCode: 137,
    outOfMemory: false,
    commandOutput: 'first\nlast',
  };
  expect(await exited()).toEqual([expected]);
  expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited', place: null, exit: expected });
  const { folders: _, ...left } = await host.inventory();
  expect(left).toMatchObject({ containers: [], processes: [], shims: [], loopDevices: [], interfaces: [] });
  await sleep(1500);
  expect(exits).toHaveLength(1);
  await restart();
  await sleep(100);
  expect(exits).toHaveLength(1);
});

test('an end for lack of memory has its own reason', async () => {
  const { spec, place } = await created();
  await shell(place, spec, 'python3 -c "x = bytearray(400 << 20)"');
  process.kill((await pids()).init, 'SIGKILL');
  expect(await exited()).toMatchObject([{ sandboxId: spec.sandboxId, exitCode: 137, outOfMemory: true }]);
});

test('a requested end is not reported', async () => {
  const { spec } = await created();
  await host.driver.stop(spec.sandboxId);
  await sleep(1200);
  expect(exits).toEqual([]);
});

test('the failure of a start includes its last output', async () => {
  const spec = host.spec({
    command: { entrypoint: ['/bin/sh', '-c'], cmd: ['echo going; sleep 2; kill -9 $PPID'] },
    readyProbe: {
      type: 'tcpSocket',
      port: 1,
      initialDelaySeconds: 0,
      periodSeconds: 0.1,
      timeoutSeconds: 1,
      failureThreshold: 100,
    },
  });
  await expect(host.driver.create(spec)).rejects.toMatchObject({
    code: 'runtime_exited',
    exit: { exitCode: 137, commandOutput: 'going\n' },
  });
  expect(exits).toEqual([]);
});

test('sandboxes continue without the host worker and are taken over by the next', async () => {
  const { spec, place } = await created();
  const paused = await created();
  await host.driver.pause(paused.spec.sandboxId);
  await shell(place, spec, 'echo before >/dev/shm/note');
  await restart();
  expect(await host.driver.list()).toEqual(
    expect.arrayContaining([
      { sandboxId: spec.sandboxId, state: 'running', run: 1, place: { ...place, from: 'existing' }, exit: null },
      {
        sandboxId: paused.spec.sandboxId,
        state: 'paused',
        run: 1,
        place: { ...paused.place, from: 'existing' },
        exit: null,
      },
    ]),
  );
  expect((await shell(place, spec, 'cat /dev/shm/note')).output).toBe('before');
  expect(await host.driver.create(spec)).toEqual({ ...place, from: 'existing' });
  expect((await host.driver.resume(paused.spec)).from).toBe('thaw');
  process.kill((await pids()).init, 'SIGKILL');
  expect(await exited()).toHaveLength(1);
});

test('a host worker that stops leaves its parts on the machine only if a sandbox needs them', async () => {
  const { spec } = await created();
  await host.driver.fence.keepOpenUntil(uptimeSeconds() + 3600);
  const name = JSON.parse(readFileSync(path.join(host.dataDir, 'oci/copy.json'), 'utf8')).id as string;
  const parts = () => ({
    links: readdirSync('/sys/class/net').filter((each) => each.startsWith(`sb${name}`)).length > 0,
    routes: onHost('ip', '-4', 'route', 'show', 'type', 'unreachable').includes(host.driver.subnet),
    table: onHost('nft', 'list', 'tables').includes(`sandboxes_${name}`),
    groups: onHost('find', '/sys/fs/cgroup', '-maxdepth', '3', '-name', `*sandboxes-${name}*`) !== '',
    guard: onHost('ps', '-eo', 'args').includes(`lease-guard ${host.dataDir}`),
  });
  const all = { links: true, routes: true, table: true, groups: true, guard: true };
  await host.driver.pause(spec.sandboxId);
  await host.driver.close();
  await host.driver.leaveIfEmpty();
  expect(parts()).toEqual(all);
  await host.start();
  await host.driver.remove(spec.sandboxId);
  expect(parts()).toEqual(all);
  await host.driver.close();
  await host.driver.leaveIfEmpty();
  await until(() => !parts().guard);
  expect(parts()).toEqual({ links: false, routes: false, table: false, groups: false, guard: false });
  await host.start();
  await created();
});

test('an end without a host worker is reported once after its next start', async () => {
  const { spec } = await created();
  const { init, shim } = await pids();
  await host.driver.close();
  process.kill(init, 'SIGKILL');
  await until(() => onHost('sh', '-c', `test -e /proc/${shim} && echo there || true`) === '');
  await host.start();
  host.driver.onExit((exit) => exits.push(exit));
  expect(await exited()).toMatchObject([{ sandboxId: spec.sandboxId, exitCode: 137 }]);
  await restart();
  await sleep(100);
  expect(exits).toHaveLength(1);
});

test('after a restart of the machine a sandbox has its disk, reports no end, and can start again', async () => {
  const { spec, place } = await created();
  await shell(place, spec, 'echo kept >/root/note; sync');
  const { shim, init } = await pids();
  await host.driver.close();
  process.kill(shim, 'SIGKILL');
  process.kill(init, 'SIGKILL');
  await until(async () => (await host.inventory()).loopDevices.length === 0);
  await host.start();
  host.driver.onExit((exit) => exits.push(exit));
  expect(await host.driver.list()).toEqual([
    { sandboxId: spec.sandboxId, state: 'exited', run: 1, place: null, exit: null },
  ]);
  const again = await host.driver.resume(spec);
  expect((await shell(again, spec, 'cat /root/note')).output).toBe('kept');
  expect(exits).toEqual([]);
});

test('a sandbox whose shim is killed is ended and reported', async () => {
  const { spec } = await created();
  process.kill((await pids()).shim, 'SIGKILL');
  expect(await exited()).toEqual([
    { sandboxId: spec.sandboxId, run: 1, exitCode: null, outOfMemory: false, commandOutput: '' },
  ]);
  expect((await host.inventory()).processes).toEqual([]);
  expect((await host.driver.resume(spec)).from).toBe('cold');
});

test('a host worker that is killed during a create leaves nothing that blocks the next try', async () => {
  let finished = 0;
  await host.driver.close();
  for (const delayMs of [0, 15, 30, 45, 60, 80, 110, 150, null]) {
    const spec = host.spec();
    const { logger: _, ...options } = host.options();
    const worker = spawn(
      process.execPath,
      [path.join(import.meta.dirname, 'crashing-create.ts'), JSON.stringify({ options, spec })],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    if (await killAfter(worker, delayMs)) finished += 1;
    await host.start();
    host.driver.onExit((exit) => exits.push(exit));
    const place = await host.driver.create(spec);
    expect((await shell(place, spec, 'hostname')).output).toBe(spec.sandboxId);
    await host.driver.remove(spec.sandboxId);
    expect(await host.inventory()).toMatchObject(nothing);
    await host.driver.close();
  }
  expect(finished).toBeGreaterThan(0);
  expect(finished).toBeLessThan(9);
  expect(exits).toEqual([]);
  await host.start();
}, 600_000);

/** Kills it so long after the beginning of the create; null: after its end. @returns whether it had finished by then */
async function killAfter(worker: ChildProcess, delayMs: number | null): Promise<boolean> {
  let said = '';
  worker.stdout!.on('data', (chunk) => {
    said += chunk;
  });
  await until(() => said.includes('creating'), 45_000, 1);
  if (delayMs === null) await until(() => said.includes('created'));
  else await sleep(delayMs);
  worker.kill('SIGKILL');
  await new Promise((resolve) => worker.once('close', resolve));
  return said.includes('created');
}

test('leftovers of unknown sandboxes are removed', async () => {
  const kept = await created();
  const unknown = await created();
  expect(await host.driver.reconcile([kept.spec.sandboxId])).toMatchObject({ sandboxes: [unknown.spec.sandboxId] });
  expect((await host.driver.list()).map((sandbox) => sandbox.sandboxId)).toEqual([kept.spec.sandboxId]);
  expect((await shell(kept.place, kept.spec, 'echo fine')).output).toBe('fine');
});

test('a sandbox that cannot be frozen in time continues to run', async () => {
  await host.driver.close();
  await host.start({ pauseTimeoutSeconds: 5 });
  const { spec, place } = await created();
  const { init } = await pids();
  const { asked, letGo } = await hangMount(init);
  await shell(place, spec, 'ls /mnt &');
  await asked;
  await expect(host.driver.pause(spec.sandboxId)).rejects.toMatchObject({
    code: 'pause_failed',
    retryable: true,
    message: expect.stringMatching(/ wait in the kernel \(.*request_wait_answer.*\)$/),
  });
  expect((await host.driver.inspect(spec.sandboxId)).state).toBe('running');
  expect((await shell(place, spec, 'echo goes on')).output).toBe('goes on');
  await letGo();
  // With the default time, because a stalled machine may exceed the short one.
  await restart();
  await host.driver.pause(spec.sandboxId);
  expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');
});

test('a resume thaws a sandbox that was not frozen completely', async () => {
  const { spec, place } = await created();
  const { asked, letGo } = await hangMount((await pids()).init);
  await shell(place, spec, 'ls /mnt &');
  await asked;
  await host.driver.halt(spec.sandboxId);
  expect((await host.driver.inspect(spec.sandboxId)).state).toBe('running');
  expect((await host.driver.resume(spec)).from).toBe('thaw');
  expect((await shell(place, spec, 'echo goes on')).output).toBe('goes on');
  await letGo();
});

test('a sandbox whose agent hangs is not resumed, and stays paused', async () => {
  await host.driver.close();
  // Longer than the start of a working agent on a busy machine.
  await host.start({ agentStartTimeoutSeconds: 10 });
  const { spec } = await created();
  const { agent } = await pids();
  process.kill(agent, 'SIGSTOP');
  await host.driver.pause(spec.sandboxId);
  await expect(host.driver.resume(spec)).rejects.toMatchObject({
    code: 'agent_not_answering',
    retryable: false,
    message: expect.stringContaining('POST /v1/sandboxes/{sandbox_id}/restart'),
  });
  expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');
  process.kill(agent, 'SIGCONT');
  // With the default time, in case the machine stalls.
  await restart();
  expect((await host.driver.resume(spec)).from).toBe('thaw');
});

test('a host with a nearly full disk refuses starts with a reason', async () => {
  const small = path.join(host.dataDir, 'small');
  mkdirSync(small);
  onHost('mount', '-t', 'tmpfs', '-o', 'size=300m', 'small', small);
  await host.driver.close();
  const full = new LocalHost();
  await full.start({ dataDir: small });
  await expect(full.driver.create(full.spec())).rejects.toMatchObject({ code: 'host_disk_full', retryable: true });
  await full.close();
  onHost('umount', small);
  await host.start();
});

test('errors that the kernel recorded on a disk are repaired before its next use', async () => {
  const { spec, place } = await created();
  await shell(place, spec, 'echo kept >/root/note; sync');
  await host.driver.stop(spec.sandboxId);
  const disk = path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId, 'disk.ext4');
  onHost('debugfs', '-w', '-R', 'set_super_value state 2', disk);
  const again = await host.driver.resume(spec);
  expect((await shell(again, spec, 'cat /root/note')).output).toBe('kept');
  await host.driver.stop(spec.sandboxId);
  expect(
    readFileSync(disk)
      .subarray(1024 + 58, 1024 + 60)
      .readUInt16LE() & 2,
  ).toBe(0);
});
