import { readFileSync } from 'node:fs';
import { endIfThere } from '../support/end-if-there.ts';
import { until } from '../support/until.ts';
import { LocalHost, nothing, onHost, shell } from './local-host.ts';

/** A file of a process in /proc, or an empty text when the process has ended. */
function procFile(pid: number, file: 'cmdline' | 'status'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}

/** crun and runc make the same sandbox, regardless of the default here. */
test.each(['crun', 'runc'] as const)(
  '%s makes, pauses, resumes and ends sandboxes',
  async (runtime) => {
    await using host = await LocalHost.open({ runtime, warmPoolSize: 1 });
    const exits: unknown[] = [];
    host.driver.onExit((exit) => exits.push(exit));
    const spec = host.spec();
    const place = await host.driver.create(spec);
    const { output } = await shell(
      place,
      spec,
      `hostname; id -u; grep -E '^(CapEff|Seccomp):' /proc/self/status; df --output=size -BM / | tail -1
    cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max
    cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max
    unshare --user true; mount -t tmpfs x /mnt; chmod 600 /dev/null; echo x >/.platform/x`,
    );
    const { shims } = await host.inventory();
    // The pool makes its next member at the same time, so a shim's parent process may just have ended.
    const lines = shims.map((pid) => procFile(pid, 'cmdline')).filter((line) => line !== '');
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).toMatch(new RegExp(`\\0runtime=\\S*${runtime}\\0`));
    expect(output).toMatch(/^sbx-test\d+\n0\nCapEff:\s00000000a00405fb\nSeccomp:\s2\n\s*9\d\dM\n268435456\n1024\n/);
    expect(output).toMatch(
      /unshare failed: Operation not permitted[\s\S]+permission denied[\s\S]+Read-only file system/,
    );
    await host.driver.pause(spec.sandboxId);
    expect((await host.driver.resume(spec)).from).toBe('thaw');
    await until(() => host.driver.poolReady >= 1);
    expect((await host.driver.create(host.spec({ storageGb: spec.storageGb }))).from).toMatch(/pool|cold/);
    const { processes } = await host.inventory();
    // The pool makes its next member at the same time, so its helper processes come and go.
    const running = (program: string) => processes.filter((pid) => procFile(pid, 'cmdline').includes(program));
    const first = running('/.platform/bin/catatonit');
    const agents = running('agent.cjs');
    expect(Math.min(first.length, agents.length)).toBeGreaterThanOrEqual(2);
    for (const pid of [...first, ...agents]) expect(procFile(pid, 'status')).toMatch(/^Seccomp:\s2$/m);
    for (const pid of first) endIfThere(pid);
    await until(() => exits.length >= 2);
    expect(exits).toMatchObject([{ exitCode: 137 }, { exitCode: 137 }]);
    await host.driver.close();
    await host.driver.reconcile([]);
    expect(await host.inventory()).toMatchObject(nothing);
  },
  300_000,
);

test('crun leaves no groups below the mount that is hidden from it', async () => {
  // The place of version 2 beside version 1. With version 2 alone there is none.
  const folder = '/sys/fs/cgroup/unified';
  const below = () =>
    onHost('unshare', '--mount', 'sh', '-c', `! [ -d ${folder} ] || { umount ${folder} && ls ${folder}; }`);
  const before = below();
  await using host = await LocalHost.open({ runtime: 'crun' });
  await host.driver.create(host.spec());
  await host.closeEmpty();
  expect(below()).toBe(before);
});
