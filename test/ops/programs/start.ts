import { openDataFolder } from '../../../ops/local-stack/supervisor/data-folder.ts';
import { Platform } from '../../../ops/local-stack/supervisor/platform.ts';

/**
 * `npm start` with the processes of this folder in place of the platform's. Prints a line of JSON when all are ready.
 */
const here = 'test/ops/programs';
const folder = await openDataFolder(process.env.PLATFORM_DATA_DIR!);
const platform = new Platform(folder, process.env, (text) => console.error(text), {
  migrate: `${here}/migrate.ts`,
  servers: { api: `${here}/api.ts`, gateway: `${here}/gateway.ts` },
  workers: { worker: `${here}/worker.ts`, host: `${here}/host.ts` },
});
const stopAsked = new Promise((resolve) => process.once('SIGTERM', resolve));
try {
  const { env, newApiKey } = await platform.start();
  console.log(JSON.stringify({ env, newApiKey }));
  await stopAsked;
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
await platform.stop();
await folder.release();
