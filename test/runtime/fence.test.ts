import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { Cgroups } from '../../runtime/oci/cgroups.ts';
import type { Copy } from '../../runtime/oci/copy.ts';
import { Fence } from '../../runtime/oci/fence.ts';
import { uptimeSeconds } from '../../runtime/uptime.ts';
import { findProcesses } from '../support/find-processes.ts';
import { until } from '../support/until.ts';

let folder: string;
let fence: Fence;
const leaseFile = () => path.join(folder, 'lease');
const freezer = () => path.join(folder, 'freezer.state');

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-fence-'));
  fs.writeFileSync(freezer(), 'THAWED\n');
  const cgroups = {
    freezer: { fence: { file: freezer(), text: 'FROZEN' } },
    usageFiles: () => ({ memoryStat: path.join(folder, 'memory.stat') }),
    shimFolders: () => [],
  } as unknown as Cgroups;
  fence = new Fence({ folder } as Copy, cgroups);
});

afterEach(async () => {
  await fence.teardown();
  // The guard reads the folder until it has noticed the removal of the lease.
  await until(() => guards().length === 0);
  fs.rmSync(folder, { recursive: true });
});

/** The guards of this folder. */
function guards(): number[] {
  return findProcesses((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder));
}

const hasStarted = () => fs.existsSync(`${leaseFile()}.lock`) && guards().length === 1;

test('a lease that is renewed while the disk’s reserve changes has the latest values of both', async () => {
  const from = Math.floor(uptimeSeconds()) + 3600;
  const renewals = Array.from({ length: 8 }, async (_, index) => {
    await Promise.all([fence.keepOpenUntil(from + index), fence.keepFree(1000 + index)]);
  });
  await Promise.all(renewals);
  expect(fs.readFileSync(leaseFile(), 'utf8')).toMatch(new RegExp(`^${from + 7} `));
  expect(fs.readdirSync(folder)).not.toContain('lease.new');
  expect(fs.readFileSync(freezer(), 'utf8')).toBe('THAWED\n');
});

test('a renewal starts a guard only if none runs, also after the guard was killed', async () => {
  const end = Math.floor(uptimeSeconds()) + 3600;
  await fence.keepOpenUntil(end);
  await until(hasStarted);
  const [first] = guards();
  await fence.keepOpenUntil(end + 1);
  expect(guards()).toEqual([first]);

  process.kill(first!, 'SIGKILL');
  await until(async () => {
    await fence.keepOpenUntil(end + 2);
    const [now, ...others] = guards();
    return now !== undefined && now !== first && others.length === 0;
  });
});
