import { agentProcess, containerConfig } from '../../runtime/oci/container-config.ts';
import { contextsOf, findSelinux, type SelinuxContexts } from '../../runtime/oci/selinux.ts';

/** Sandboxes run with SELinux in `test/machines/selinux.machine.ts`. */

const config = (selinux: SelinuxContexts | null) =>
  containerConfig({
    ...{ runtime: 'crun', hostname: 'sbx-1', cgroupPath: '/sandboxes/sbx-1', resources: {}, selinux },
    connection: {
      ...{ address: '10.0.0.2', gateway: '10.0.0.1', interface: 'sb000000-2', mtu: 1500, group: 1 },
      ...{ number: 2, uidBase: 131_072 },
    },
    seccomp: { seccomp: {}, annotations: {} },
  });

test('without SELinux, sandboxes have no contexts', () => {
  expect(findSelinux()).toEqual({ isUsed: false, missing: null });
  expect(JSON.stringify([config(null), agentProcess(true, null)])).not.toMatch(/selinuxLabel|mountLabel/);
});

test('with SELinux, both processes and all mounts of a sandbox have its context', () => {
  const contexts = contextsOf(1026);
  expect(contexts).toEqual({
    process: 'system_u:system_r:container_t:s0:c2,c514',
    files: 'system_u:object_r:container_file_t:s0:c2,c514',
  });
  expect(config(contexts)).toMatchObject({
    process: { selinuxLabel: contexts.process },
    linux: { mountLabel: contexts.files },
  });
  expect(agentProcess(false, contexts)).toMatchObject({ selinuxLabel: contexts.process });
});

test('no two sandboxes of a machine have the same categories', () => {
  const levels = Array.from({ length: 0x8000 }, (_, number) => contextsOf(number).process);
  expect(new Set(levels).size).toBe(levels.length);
  expect(levels.every((level) => /:s0:c\d{1,3},c(5[1-9]\d|[6-9]\d\d|10[01]\d|102[0-3])$/.test(level))).toBe(true);
});
