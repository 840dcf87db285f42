import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

/**
 * Stands for a process of the platform: says that it is ready, leaves its pid and settings in the data folder, holds
 * its port, and runs until a signal stops it. With `FAIL_AT_START` naming it, it ends instead.
 */
const name = path.basename(process.argv[1]!, '.ts');
const dataDir = process.env.PLATFORM_DATA_DIR!;
if (process.env.FAIL_AT_START === name) {
  console.error('no such luck');
  process.exit(3);
}
/** A file that ends the wait of those who stop. */
const { STOP_WHEN } = process.env;
const mayEnd = () => !STOP_WHEN || fs.existsSync(STOP_WHEN);
const { PLATFORM_URL, DATABASE_URL, DATABASE_OWNER_URL, TEMPORAL_ADDRESS } = process.env;
// In one step: a test may read it at any time.
const file = path.join(dataDir, `${name}.json`);
fs.writeFileSync(
  `${file}.new`,
  JSON.stringify({ pid: process.pid, PLATFORM_URL, DATABASE_URL, DATABASE_OWNER_URL, TEMPORAL_ADDRESS }),
);
fs.renameSync(`${file}.new`, file);
process.once('SIGTERM', () => {
  fs.appendFileSync(path.join(dataDir, 'stopped'), `${name}\n`);
  const end = () => (mayEnd() ? process.exit(0) : setTimeout(end, 20));
  end();
});
const ports: Record<string, string | undefined> = {
  api: process.env.PLATFORM_API_PORT,
  gateway: process.env.PLATFORM_GATEWAY_PORT,
};
// A server holds its port; a worker has none, and takes any.
net.createServer().listen(Number(ports[name] ?? 0), '127.0.0.1', () => {
  console.log(JSON.stringify({ level: 30, msg: 'ready' }));
});
console.log(JSON.stringify({ level: 40, msg: 'something odd', err: { message: 'a cause' } }));
