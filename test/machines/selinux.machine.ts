import { expect, test } from '@jest/globals';
import { debianImage } from './support/machine-image.ts';
import { copyProject, inProject } from './support/project-files.ts';
import { VirtualMachine } from './support/virtual-machine.ts';

/**
 * The type that services of Fedora have, for Debian's policy. A permissive type may do everything. It also gets all rights,
 * because the kernel reports each use that has no right, and drops the reports about sandboxes when there are too many.
 */
const serviceType = `
  (typeattributeset cil_gen_require domain)
  (type unconfined_service_t)
  (roletype system_r unconfined_service_t)
  (typeattributeset domain (unconfined_service_t))
  (typepermissive unconfined_service_t)
  (typeattribute all_types)
  (typeattributeset all_types (all))`;
const allRights =
  'for class in $(ls /sys/fs/selinux/class); do echo "(allow unconfined_service_t all_types ($class (all)))"; done';

test('sandboxes run in contexts of their own while the kernel enforces SELinux', async () => {
  const image = await debianImage('trixie', { hasSelinux: true });
  const kernelOptions = 'security=selinux selinux=1 enforcing=0';
  await using machine = await VirtualMachine.boot({ image, fill: copyProject, kernelOptions });
  await machine.run(`{ echo '${serviceType}'; ${allRights}; } > /root/service-type.cil
    semodule -i /root/service-type.cil
    setsebool allow_execmem=1 # for Node. Fedora allows it to containers
    chcon -t usr_t /machine && chcon -t ssh_home_t /machine/authorized_keys`);
  const words = 'node ops/development/test.ts test/machines/inside/selinux.inside.ts -w 1 --testMatch "**/*.inside.ts"';
  const service = 'runcon system_u:system_r:unconfined_service_t:s0';
  try {
    const output = await machine.run(`${inProject} ${service} sh -c 'setenforce 1 && ${words}'`);
    console.log(output);
    expect(output.trimEnd().split('\n').at(-1)).toBe('3 passed, 0 failed');
  } finally {
    console.log((await machine.try('dmesg | grep "avc: *denied.*scontext=[^ ]*:container_t"')).output);
  }
}, 3_600_000);
