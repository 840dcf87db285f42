import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

/**
 * Replaces a process of the platform: reports that it is ready, stores its pid and settings in the data folder, holds
 * its port, and runs until a signal stops it. If `FAIL_AT_START` contains its name, it ends instead.
 */
const name = path.basename(process.argv[1]!, '.ts');
const dataDir = process.env.PLATFORM_DATA_DIR!;
if (process.env.FAIL_AT_START === name) {
  console.error('no such luck');
  process.exit(3);
}
/** The processes stop only when this file exists. */
const { STOP_WHEN } = process.env;
const mayEnd = () => !STOP_WHEN || fs.existsSync(STOP_WHEN);
const { PLATFORM_URL, DATABASE_URL, DATABASE_OWNER_URL, TEMPORAL_ADDRESS } = process.env;
// Written in one step, because a test may read it at any time.
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
// A server holds its port. A worker has none and uses any.
net.createServer().listen(Number(ports[name] ?? 0), '127.0.0.1', () => {
  console.log(JSON.stringify({ level: 30, msg: 'ready' }));
});
console.log(JSON.stringify({ level: 40, msg: 'something odd', err: { message: 'a cause' } }));
