import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { NodeGroups } from '../../runtime/kubernetes/node-helper/node-groups.ts';
import { endIfThere } from '../support/end-if-there.ts';
import { until } from '../support/until.ts';

/** The hierarchies that can freeze here: version 1, and version 2 in addition or alone; each with its root. */
const freezers = fs
  .readFileSync('/proc/mounts', 'utf8')
  .split('\n')
  .map((line) => line.split(' ') as [string, string, string, string])
  .flatMap(([, root, type, options]) => {
    if (type === 'cgroup2') return [{ root, folder: root }];
    return type === 'cgroup' && options.split(',').includes('freezer') ? [{ root, folder: path.dirname(root) }] : [];
  });

const never = new AbortController().signal;
const made: string[] = [];
const children: ChildProcess[] = [];

/** A control group with its parents, as a kubelet makes them below a root of the test. */
function makeGroup(root: string, ...names: string[]): string {
  return names.reduce((parent, name) => {
    const folder = path.join(parent, name);
    if (!fs.existsSync(folder)) {
      passLimitsOn(parent);
      fs.mkdirSync(folder);
      made.push(folder);
    }
    return folder;
  }, root);
}

/** In version 2, a group has the limits that its parent passes on. */
function passLimitsOn(group: string): void {
  const controllers = path.join(group, 'cgroup.controllers');
  if (!fs.existsSync(controllers) || !fs.readFileSync(controllers, 'utf8').includes('pids')) return;
  fs.writeFileSync(path.join(group, 'cgroup.subtree_control'), '+pids');
}

/** A process of the group that writes dots continuously. */
function dotsIn(group: string): { count: () => number } {
  const child = spawn('sh', ['-c', 'while :; do printf .; sleep 0.01; done'], { stdio: ['ignore', 'pipe', 'ignore'] });
  children.push(child);
  let dots = 0;
  child.stdout!.on('data', (bytes: Buffer) => {
    dots += bytes.length;
  });
  fs.writeFileSync(path.join(group, 'cgroup.procs'), `${child.pid}`);
  return { count: () => dots };
}

afterEach(async () => {
  const ended = children.splice(0).map(async (child) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  });
  await Promise.all(ended);
  for (const folder of made.splice(0).reverse()) {
    // The shell's own child ends last.
    await until(() => {
      for (const pid of fs.readFileSync(path.join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean)) {
        endIfThere(Number(pid));
      }
      return isRemoved(folder);
    });
  }
});

/** The kernel keeps a group for a moment after it has listed the last ended process. */
function isRemoved(group: string): boolean {
  try {
    fs.rmdirSync(group);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false;
    throw error;
  }
}

test.each(freezers)(
  'a container below $root is found, frozen and thawed, and no other one',
  async ({ root, folder }) => {
    const [uid, otherUid] = [randomUUID(), randomUUID()];
    const [id, otherId] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')];
    const own = `node-groups-${randomBytes(6).toString('hex')}`;
    const cgroupfs = makeGroup(root, own, 'kubepods', 'burstable', `pod${uid}`, id);
    const systemd = makeGroup(
      root,
      own,
      'kubepods.slice',
      'kubepods-besteffort.slice',
      `kubepods-besteffort-pod${otherUid.replaceAll('-', '_')}.slice`,
      `cri-containerd-${otherId}.scope`,
    );
    const groups = NodeGroups.at(folder);
    expect(groups.find(uid, id)).toBe(cgroupfs);
    expect(groups.find(otherUid, otherId)).toBe(systemd);
    expect(groups.find(uid, otherId)).toBeNull();
    expect(groups.find(`${uid}/..`, id)).toBeNull();

    const [dots, otherDots] = [dotsIn(cgroupfs), dotsIn(systemd)];
    await until(() => dots.count() > 0 && otherDots.count() > 0);
    expect(groups.isFrozen(cgroupfs)).toBe(false);
    expect(await groups.set(cgroupfs, 'frozen', 60_000, never)).toBe(true);
    expect(groups.isFrozen(cgroupfs)).toBe(true);
    expect(groups.isFrozen(systemd)).toBe(false);
    // Earlier dots may still arrive. They have arrived when the other process has written many more.
    const others = otherDots.count();
    await until(() => otherDots.count() > others + 20);
    const settled = dots.count();
    await until(() => otherDots.count() > others + 40);
    expect(dots.count()).toBe(settled);

    expect(await groups.set(cgroupfs, 'thawed', 60_000, never)).toBe(true);
    await until(() => dots.count() > settled);
  },
);

test.each(freezers)('only a group of $root with a process has processes', ({ root, folder }) => {
  const [uid, id] = [randomUUID(), randomBytes(32).toString('hex')];
  const own = `node-groups-${randomBytes(6).toString('hex')}`;
  const groups = NodeGroups.at(folder);
  const group = makeGroup(root, own, 'kubepods', `pod${uid}`, id);
  // Version 1 counts processes in another hierarchy, and here only if there is one.
  const counted = countedIn(group, { root, folder });
  expect(groups.hasProcesses(group)).toBe(counted === null);
  dotsIn(counted ?? group);
  expect(groups.hasProcesses(group)).toBe(true);
});

/** The group that counts the processes of a freezer's group. Null: the machine does not count them. */
function countedIn(group: string, freezer: { root: string; folder: string }): string | null {
  const root = findLimitsRoot(freezer);
  return root && makeGroup(root, ...path.relative(freezer.root, group).split(path.sep));
}

/** The root of the hierarchy that counts and limits the processes of a freezer's groups. Null: the machine has none. */
function findLimitsRoot({ root, folder }: { root: string; folder: string }): string | null {
  if (root === folder) return root;
  const pids = path.join(folder, 'pids');
  return fs.existsSync(path.join(pids, 'cgroup.procs')) ? pids : null;
}

test('a group at its limit of processes cannot fork, and a group beside it can', async () => {
  const { root, folder } = limiting();
  const own = `node-groups-${randomBytes(6).toString('hex')}`;
  const [limited, beside] = ['limited', 'beside'].map((name) => makeGroup(root, own, name));
  const groups = NodeGroups.at(folder);
  expect(groups.limitProcesses(freezerPath(limited!, { root, folder }), 4)).toBe(true);
  const script = 'read go; for number in 1 2 3 4 5 6; do sleep 60 & done; echo forked; wait';
  expect(await readOutput(limited!, script)).toMatch(/fork/i);
  expect(await readOutput(beside!, script)).toBe('forked');
  expect(groups.limitProcesses(path.join(folder, 'gone'), 4)).toBe(false);
});

/** The hierarchy that limits processes: of version 1, or version 2 if its root passes the limits on. */
function limiting(): { root: string; folder: string } {
  const found = freezers.flatMap((freezer) => {
    const root = findLimitsRoot(freezer);
    return root === null ? [] : [{ root, folder: freezer.folder }];
  });
  return found.find(({ root, folder }) => root !== folder) ?? found[0]!;
}

/** The limit is set by the path of the freezer's group. */
function freezerPath(group: string, { root, folder }: { root: string; folder: string }): string {
  return root === folder ? group : path.join(folder, 'freezer', path.relative(root, group));
}

/** The first line of a script that runs in a group and first waits for a line. */
async function readOutput(group: string, script: string): Promise<string> {
  const child = spawn('sh', ['-c', `exec 2>&1; ${script}`], { stdio: ['pipe', 'pipe', 'ignore'] });
  children.push(child);
  fs.writeFileSync(path.join(group, 'cgroup.procs'), `${child.pid}`);
  child.stdin!.write('go\n');
  for await (const line of readline.createInterface(child.stdout!)) return line;
  throw new Error('the script ended without a line');
}

test('a removed group is not frozen, and nothing waits for it', async () => {
  const { root, folder } = freezers[0]!;
  const groups = NodeGroups.at(folder);
  const gone = path.join(root, `node-groups-${randomBytes(6).toString('hex')}`);
  expect(groups.isFrozen(gone)).toBe(false);
  expect(await groups.set(gone, 'frozen', 10_000, never)).toBe(false);
  expect(() => NodeGroups.at('/proc')).toThrow('no control groups');
});
