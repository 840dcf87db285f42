import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { holdDataFolder, requireOwnDataFolder } from '../../../worker/hosts/own-data-folder.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';

let plane: ControlPlane;
let dataDir: string;
const driver = new MemoryDriver();
/** A folder without any sandbox. */
const empty = { list: async () => [] };

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro', relay: false });
}, 120_000);
afterAll(() => plane?.stop());
beforeEach(() => {
  dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'own-data-folder-'));
});
afterEach(() => fs.rmSync(dataDir, { recursive: true, force: true }));

const file = () => path.join(dataDir, 'host-id');

test('a new host marks its empty data folder', async () => {
  await requireOwnDataFolder(plane.orm, 'host-new', dataDir, empty);
  expect(fs.readFileSync(file(), 'utf8')).toBe('host-new');
});

test('an empty folder is refused, with a remedy, while the host has disks of living sandboxes', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  await expect(requireOwnDataFolder(plane.orm, plane.hostId, dataDir, empty)).rejects.toThrow(/Mount its data disk/);
  expect(fs.existsSync(file())).toBe(false);

  // A folder from before this file was introduced contains sandboxes.
  await requireOwnDataFolder(plane.orm, plane.hostId, dataDir, driver);
  expect(fs.readFileSync(file(), 'utf8')).toBe(plane.hostId);
});

test('a second host worker on a data folder is refused until the first has ended, even by a kill', async () => {
  const module = path.resolve(import.meta.dirname, '../../../worker/hosts/own-data-folder.ts');
  const hold = `import { holdDataFolder } from '${module}';
    await holdDataFolder(process.argv[1]); console.log('held'); setInterval(() => {}, 1000);`;
  const words = ['--input-type=module', '--eval', hold, dataDir];
  const first = spawn(process.execPath, words, { env: { ...process.env, NODE_OPTIONS: '' } });
  const ended = once(first, 'exit');
  await once(first.stdout, 'data');
  const link = `${dataDir}-link`;
  fs.symlinkSync(dataDir, link);
  for (const folder of [dataDir, link]) {
    await expect(holdDataFolder(folder)).rejects.toThrow(`Another host worker runs on ${folder}. Stop it first`);
  }
  fs.rmSync(link);
  first.kill('SIGKILL');
  await ended;
  await holdDataFolder(dataDir);
});
