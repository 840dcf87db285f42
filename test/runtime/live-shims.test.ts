import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readlinkSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { until } from '../support/until.ts';

const root = path.resolve(import.meta.dirname, '../..');
const folder = mkdtempSync(path.join(os.tmpdir(), 'live-shims-'));
const words = ['interface=sbc0ffee-1', 'id=sbx-1', 'address=10.0.0.1', 'image=/image'];
/** They wait for their input. */
const waiting = ['sh', '-c', 'read -r line', 'sh', ...words];
const shim = spawn('env', waiting, { cwd: folder });
const ofSandbox = spawn('unshare', ['--user', ...waiting]);

afterAll(async () => {
  for (const each of [ofSandbox, shim]) await end(each);
  rmSync(folder, { recursive: true });
});

async function end(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

test('a process of a sandbox whose command line cannot be read does not delay the search for shims', async () => {
  const readUserNamespace = (pid: number | 'self') => readlinkSync(`/proc/${pid}/ns/user`);
  await until(() => readUserNamespace(ofSandbox.pid!) !== readUserNamespace('self'));
  const search = `import { liveShims } from '${root}/runtime/oci/live-shims.ts';
    console.log(JSON.stringify(liveShims({ interface: 'sbc0ffee' }).map((shim) => shim.process.pid)));`;
  // A pipe without a writer: a reader waits, as it waits for a process that holds the lock of its memory.
  const script = `mkfifo "$1/pipe" && mount --bind "$1/pipe" /proc/$2/cmdline && exec "$3" --input-type=module --eval "$4"`;
  const args = ['--mount', 'sh', '-c', script, 'sh', folder, String(ofSandbox.pid), process.execPath, search];
  const found = execFileSync('unshare', args, {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  expect(JSON.parse(found)).toEqual([shim.pid]);
});
