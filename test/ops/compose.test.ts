import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const root = path.resolve(import.meta.dirname, '../..');

test('docker-compose accepts the file, and each process of ours is a service whose script is there', async () => {
  const { stdout } = await promisify(execFile)('docker-compose', ['config', '--services'], { cwd: root });
  const services = stdout.trim().split('\n').sort();
  expect(services).toEqual([
    'api',
    'gateway',
    'host',
    'migrate',
    'postgres',
    'registry',
    'temporal',
    'temporal-ui',
    'turn',
    'worker',
  ]);
  const text = fs.readFileSync(path.join(root, 'docker-compose.yml'), 'utf8');
  const scripts = [...text.matchAll(/\b(?:api|gateway|worker|db|ops)\/[\w/-]+\.ts\b/g)].map(([script]) => script);
  expect(scripts).toEqual(
    expect.arrayContaining(['api/server.ts', 'gateway/server.ts', 'worker/control.ts', 'worker/host.ts']),
  );
  for (const script of scripts) expect(fs.existsSync(path.join(root, script))).toBe(true);
});

test("every service that connects to sandboxes is in the machine's own network", async () => {
  const { stdout } = await promisify(execFile)('docker-compose', ['config'], { cwd: root });
  const services = stdout.split(/\n {2}(?=\w)/);
  for (const name of ['api', 'gateway', 'host']) {
    expect(services.find((service) => service.startsWith(`${name}:`))).toContain('network_mode: host');
  }
});
