import type { OwnService } from '../../platform/config/own-services.ts';
import { createOciDriver } from '../../runtime/oci/create-driver.ts';
import type { LocalHost } from './local-host.ts';

/** A separate program that a test kills: it opens the driver and creates one sandbox. */
const { options, ownServices, spec } = JSON.parse(process.argv[2]!) as {
  options: ReturnType<LocalHost['options']>;
  ownServices?: OwnService[];
  spec: ReturnType<LocalHost['spec']>;
};
const silent = () => {};
const driver = await createOciDriver({
  ...options,
  ownServices: async () => ownServices ?? [],
  logger: { debug: silent, info: silent, warn: silent, error: silent },
});
process.stdout.write('creating\n');
await driver.create(spec);
process.stdout.write('created\n');
setInterval(silent, 1000);
