import { debianImage } from './support/machine-image.ts';
import { copyProject, inProject } from './support/project-files.ts';
import { VirtualMachine } from './support/virtual-machine.ts';

const node = 'node_modules/node/bin/node';

test('a machine boots', async () => {
  const times: [string, number][] = [];
  const since = (name: string) => console.error(name, Math.round((performance.now() - started) / 1000));
  const started = performance.now();
  const image = await debianImage('bookworm');
  since('image');
  await using machine = await VirtualMachine.boot({ image, fill: copyProject });
  since('boot');
  console.error(await machine.run('uname -r; mount | grep cgroup; systemd-analyze'));
  console.error(
    await machine.run(`${inProject} time ${node} ops/development/test.ts test/runtime/sandbox-life.test.ts -w 1`),
  );
  since('tests');
  expect(times).toEqual([]);
}, 3_000_000);
