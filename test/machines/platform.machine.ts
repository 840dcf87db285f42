import { debianImage } from './support/machine-image.ts';
import { testPlatform } from './support/platform-life.ts';
import { copyProject } from './support/project-files.ts';
import { VirtualMachine } from './support/virtual-machine.ts';

testPlatform(async () =>
  VirtualMachine.boot({ image: await debianImage('bookworm'), fill: copyProject, memoryMb: 6144 }),
);
