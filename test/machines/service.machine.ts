import { testService } from '../support/service-life.ts';
import { debianImage, filesFolder } from './support/machine-image.ts';
import { copyProject } from './support/project-files.ts';
import { VirtualMachine } from './support/virtual-machine.ts';

testService(async () => {
  const machine = await VirtualMachine.boot({
    image: await debianImage('bookworm'),
    fill: copyProject,
    memoryMb: 6144,
  });
  // What the set-up would download, build or make; and no work ahead, which an emulated machine has no time for.
  const settings = [`CACHE_DIR=${filesFolder}/cache`, 'IMAGES_AHEAD=none', 'WARM_POOL_SIZE=0'];
  await machine.run(`umask 077; mkdir /etc/sandbox-platform
    printf 'PLATFORM_%s\\n' ${settings.join(' ')} > /etc/sandbox-platform/platform.env`);
  return { machine, project: `${filesFolder}/project` };
});
