import { execFileSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { SandboxExit, SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { endIfThere } from '../support/end-if-there.ts';
import { until } from '../support/until.ts';
import { LocalHost, nothing, onHost, shell } from './local-host.ts';

/** How a starting host worker treats files that are truncated, missing, garbage or those of another sandbox. */
let host: LocalHost;
let exits: SandboxExit[];
beforeEach(async () => {
  host = await LocalHost.open();
  exits = [];
}, 300_000);
afterEach(async () => {
  await host.driver.reconcile([]);
  expect(await host.inventory()).toMatchObject(nothing);
  await host.close();
});

interface Created {
  spec: SandboxSpec;
  place: SandboxPlace;
  folder: string;
}
const created = async (): Promise<Created> => {
  const spec = host.spec({ memoryMb: 128 });
  const place = await host.driver.create(spec);
  return { spec, place, folder: path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId) };
};
const readState = async ({ spec }: Created) => (await host.driver.inspect(spec.sandboxId)).state;
const recordPath = ({ folder }: Created) => path.join(folder, 'sandbox.json');

/** Ends the host worker, changes files, and starts another one. */
async function restartAfter(change: () => unknown): Promise<void> {
  await host.driver.close();
  await change();
  await host.start();
  host.driver.onExit((exit) => exits.push(exit));
}

/** Ends every process of a sandbox without a trace, as a power cut does. */
async function cutPower(): Promise<void> {
  const { shims, processes } = await host.inventory();
  // The other processes of a sandbox end with its first process.
  for (const pid of [...shims, ...processes]) endIfThere(pid);
  await until(async () => (await host.inventory()).loopDevices.length === 0);
}

const damages: Record<string, (file: string, other: Created) => void> = {
  'is empty': (file) => truncateSync(file),
  'is cut short': (file) => truncateSync(file, 20),
  'is garbage': (file) => writeFileSync(file, Buffer.alloc(500, 0xa5)),
  'is zeros': (file) => writeFileSync(file, Buffer.alloc(4096)),
  'is huge': (file) => truncateSync(file, 2 ** 40),
  'is lost': (file) => rmSync(file),
  'is a folder': (file) => {
    rmSync(file);
    mkdirSync(path.join(file, 'inner'), { recursive: true });
  },
  'is a link to the record of another': (file, other) => {
    rmSync(file);
    symlinkSync(recordPath(other), file);
  },
  'is a pipe without a writer': (file) => {
    rmSync(file);
    execFileSync('mkfifo', [file]);
  },
  'belongs to another user': (file) => chownSync(file, 1234, 1234),
  'is of a later version': (file) => change(file, { version: 2 }),
  'has wrong types': (file) => change(file, { address: 7, phase: ['ready'] }),
  'is no object': (file) => writeFileSync(file, 'null'),
  'names another sandbox': (file, other) => writeFileSync(file, readFileSync(recordPath(other))),
  "names another sandbox's container": (file, other) => change(file, { instance: other.spec.sandboxId }),
  "names another sandbox's address": (file, other) => change(file, { address: other.place.address }),
};
const change = (file: string, fields: object) =>
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...fields }));

test('a sandbox with a damaged record continues to run, and its neighbours are not affected', async () => {
  const neighbour = await created();
  const damaged: [string, Created][] = [];
  for (const damage of Object.keys(damages)) damaged.push([damage, await created()]);
  await Promise.all(damaged.map(([, { place, spec }]) => shell(place, spec, 'echo kept >/dev/shm/note')));
  await restartAfter(() => {
    for (const [damage, sandbox] of damaged) damages[damage]!(recordPath(sandbox), neighbour);
  });
  expect(await readState(neighbour)).toBe('running');
  for (const [damage, sandbox] of damaged) {
    expect({ damage, state: await readState(sandbox) }).toEqual({ damage, state: 'running' });
    expect((await shell(sandbox.place, sandbox.spec, 'cat /dev/shm/note')).output).toBe('kept');
    await host.driver.pause(sandbox.spec.sandboxId);
    expect((await host.driver.resume(sandbox.spec)).from).toBe('thaw');
    if (damage !== 'is lost') expect(existsSync(`${recordPath(sandbox)}.damaged`)).toBe(true);
  }
  expect(host.warnings).toHaveLength(damaged.length);
  await Promise.all(damaged.map(([, { spec }]) => host.driver.remove(spec.sandboxId)));
  expect((await shell(neighbour.place, neighbour.spec, 'echo fine')).output).toBe('fine');
  const { containers, folders } = await host.inventory();
  expect({ containers, folders: folders.sandboxes }).toEqual({
    containers: [neighbour.spec.sandboxId],
    folders: [neighbour.spec.sandboxId],
  });
}, 300_000);

test('after a power cut a sandbox whose record is damaged starts again on its disk', async () => {
  const neighbour = await created();
  const damaged: [string, Created][] = [];
  for (const damage of ['is empty', 'is lost', 'is a folder', "names another sandbox's container"]) {
    damaged.push([damage, await created()]);
  }
  await Promise.all(damaged.map(([, { place, spec }]) => shell(place, spec, 'echo kept >/root/note; sync')));
  await restartAfter(async () => {
    await cutPower();
    for (const [damage, sandbox] of damaged) damages[damage]!(recordPath(sandbox), neighbour);
  });
  for (const [damage, sandbox] of damaged) {
    expect({ damage, state: await readState(sandbox) }).toEqual({ damage, state: 'exited' });
    const again = await host.driver.resume(sandbox.spec);
    expect((await shell(again, sandbox.spec, 'cat /root/note')).output).toBe('kept');
  }
  expect((await host.driver.resume(neighbour.spec)).from).toBe('cold');
  expect(exits).toEqual([]);
}, 300_000);

test('a folder of a sandbox that is a file, a link or empty affects only that sandbox', async () => {
  const neighbour = await created();
  const [aFile, aLink, empty] = [await created(), await created(), await created()];
  const elsewhere = path.join(host.dataDir, 'elsewhere');
  await restartAfter(async () => {
    for (const { spec } of [aFile, aLink, empty]) await host.driver.stop(spec.sandboxId);
    for (const { folder } of [aFile, empty]) rmSync(folder, { recursive: true });
    renameSync(aLink.folder, elsewhere);
    writeFileSync(aFile.folder, 'no folder');
    symlinkSync(elsewhere, aLink.folder);
    mkdirSync(empty.folder);
    mkdirSync(path.join(path.dirname(empty.folder), 'lost+found'));
  });
  expect(await readState(neighbour)).toBe('running');
  for (const sandbox of [aFile, aLink, empty]) {
    expect(await readState(sandbox)).toBe('absent');
    await expect(host.driver.resume(sandbox.spec)).rejects.toMatchObject({ code: 'sandbox_absent', retryable: false });
    await host.driver.remove(sandbox.spec.sandboxId);
  }
  expect(readdirSync(elsewhere)).toContain('disk.ext4');
  expect(readdirSync(path.join(host.dataDir, 'oci/damaged'))).toHaveLength(2);
  rmSync(path.join(path.dirname(empty.folder), 'lost+found'), { recursive: true });
});

test('the shim’s files may be missing or garbage, too', async () => {
  const [garbage, lost, ended] = [await created(), await created(), await created()];
  await restartAfter(async () => {
    writeFileSync(path.join(garbage.folder, 'pids'), 'garbage');
    rmSync(path.join(lost.folder, 'pids'));
    mkdirSync(path.join(garbage.folder, 'exit'));
    const [first] = onHost(
      'cat',
      `/proc/${readFileSync(path.join(ended.folder, 'pids'), 'utf8').split(' ')[2]!.trim()}/stat`,
    ).split(' ');
    process.kill(Number(first), 'SIGKILL');
    await until(() => existsSync(path.join(ended.folder, 'exit')));
    rmSync(path.join(ended.folder, 'exit'));
    symlinkSync('/dev/zero', path.join(ended.folder, 'exit'));
    symlinkSync('/dev/zero', path.join(ended.folder, 'command.tail'));
  });
  expect(await Promise.all([garbage, lost, ended].map(readState))).toEqual(['running', 'running', 'exited']);
  expect((await shell(garbage.place, garbage.spec, 'echo runs')).output).toBe('runs');
  expect((await host.driver.inspect(ended.spec.sandboxId)).exit).toBeNull();
  for (const { spec } of [garbage, lost]) await host.driver.pause(spec.sandboxId);
});

test('a host worker starts with every file of the copy itself damaged, and knows its sandboxes', async () => {
  const sandbox = await created();
  const { subnet, udpRange } = host.driver;
  const copyId = host.copy.id;
  for (const damage of ['is empty', 'is garbage', 'is lost', 'is a folder']) {
    await restartAfter(() => {
      for (const name of ['copy.json', 'network.json', 'udp-ports.json', 'pool.json']) {
        const file = path.join(host.dataDir, 'oci', name);
        if (existsSync(file)) damages[damage]!(file, sandbox);
      }
    });
    expect({ copyId: host.copy.id, subnet: host.driver.subnet, udpRange: host.driver.udpRange }).toEqual({
      copyId,
      subnet,
      udpRange,
    });
    expect((await shell(sandbox.place, sandbox.spec, 'echo runs')).output).toBe('runs');
  }
});

test.each(['with its shim', 'without its shim'])(
  'a sandbox whose folder is removed by hand leaves nothing after its delete, %s',
  async (which) => {
    const neighbour = await created();
    const sandbox = await created();
    const { shims } = await host.inventory();
    const own = shims.filter((pid) =>
      onHost('cat', `/proc/${pid}/cmdline`).includes(`\0id=${sandbox.spec.sandboxId}\0`),
    );
    if (which === 'without its shim') process.kill(own[0]!, 'SIGKILL');
    rmSync(sandbox.folder, { recursive: true });
    await host.driver.stop(sandbox.spec.sandboxId);
    await host.driver.remove(sandbox.spec.sandboxId);
    const { containers, shims: left, loopDevices, interfaces } = await host.inventory();
    expect({ containers, left: left.length, loopDevices: loopDevices.length, interfaces: interfaces.length }).toEqual({
      containers: [neighbour.spec.sandboxId],
      left: 1,
      loopDevices: 1,
      interfaces: 1,
    });
    expect((await shell(neighbour.place, neighbour.spec, 'echo fine')).output).toBe('fine');
  },
);

test('a sandbox that ends does not remove the address of the sandbox that has it now', async () => {
  const first = await created();
  await host.driver.stop(first.spec.sandboxId);
  const second = await created();
  // Addresses are reused at some time: the stopped one had this address before.
  await restartAfter(() => change(recordPath(first), { address: second.place.address }));
  await host.driver.remove(first.spec.sandboxId);
  expect((await shell(second.place, second.spec, 'echo reached')).output).toBe('reached');
});

test('a leftover that cannot be removed is logged and does not stop the host', async () => {
  const [unknown, known] = [await created(), await created()];
  const stuck = path.join(unknown.folder, 'stuck');
  writeFileSync(stuck, '');
  onHost('chattr', '+i', stuck);
  const trash = path.join(host.dataDir, 'oci/trash');
  try {
    await restartAfter(() => undefined);
    await host.driver.reconcile([known.spec.sandboxId]);
    await restartAfter(() => undefined);
    expect(host.warnings).toMatchObject([{ sandboxId: unknown.spec.sandboxId }, { what: expect.any(String) }]);
    expect((await shell(known.place, known.spec, 'echo fine')).output).toBe('fine');
    expect((await host.inventory()).containers).toEqual([known.spec.sandboxId]);
  } finally {
    onHost('chattr', '-R', '-i', trash);
    rmSync(trash, { recursive: true });
  }
  mkdirSync(trash);
});
