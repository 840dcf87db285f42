import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import type { Cgroups } from '../../runtime/oci/cgroups.ts';
import type { Copy } from '../../runtime/oci/copy.ts';
import { Fence } from '../../runtime/oci/fence.ts';
import { uptimeSeconds } from '../../runtime/uptime.ts';
import { until } from '../support/until.ts';

test('a lease that is renewed while the disk’s reserve changes has the latest values of both', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-fence-'));
  const lease = path.join(folder, 'lease');
  const freezer = path.join(folder, 'freezer.state');
  fs.writeFileSync(freezer, 'THAWED\n');
  const cgroups = {
    freezer: { fence: { file: freezer, text: 'FROZEN' } },
    usageFiles: () => ({ memoryStat: path.join(folder, 'memory.stat') }),
    shimFolders: () => [],
  } as unknown as Cgroups;
  const fence = new Fence({ folder } as Copy, cgroups);
  const from = Math.floor(uptimeSeconds()) + 3600;
  try {
    const renewals = Array.from({ length: 8 }, async (_, index) => {
      await Promise.all([fence.keepOpenUntil(from + index), fence.keepFree(1000 + index)]);
    });
    await Promise.all(renewals);
    expect(fs.readFileSync(lease, 'utf8')).toMatch(new RegExp(`^${from + 7} `));
    expect(fs.readdirSync(folder)).not.toContain('lease.new');
    expect(fs.readFileSync(freezer, 'utf8')).toBe('THAWED\n');
  } finally {
    await fence.teardown();
    // The guard reads the folder until it has noticed the removal of the lease.
    const guards = () =>
      fs
        .readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .some((pid) => {
          try {
            return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder);
          } catch {
            return false;
          }
        });
    await until(() => !guards());
    fs.rmSync(folder, { recursive: true });
  }
});
