import { testService } from '../support/service-life.ts';
import { projectInBox, SystemdBox } from '../support/systemd-box.ts';

testService(async () => ({ machine: await SystemdBox.boot(), project: projectInBox }));
