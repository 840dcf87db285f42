import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { settingsSchema } from '../../platform/config/settings.ts';

const root = path.resolve(import.meta.dirname, '../..');
const passwords = {
  POSTGRES_PASSWORD: 'of-the-owner',
  POSTGRES_TEMPORAL_PASSWORD: 'of-temporal',
  POSTGRES_RUNTIME_PASSWORD: 'of-the-processes',
};

/** The file as docker-compose reads it. */
async function composeConfig(words: string[] = [], settings: NodeJS.ProcessEnv = {}): Promise<string> {
  const env = { ...process.env, ...passwords, ...settings };
  return (await promisify(execFile)('docker-compose', ['config', ...words], { cwd: root, env })).stdout;
}

test('docker-compose accepts the file, and each of our processes is a service with an existing script', async () => {
  const stdout = await composeConfig(['--services']);
  const services = stdout.trim().split('\n').sort();
  expect(services).toEqual([
    'api',
    'gateway',
    'host',
    'migrate',
    'postgres',
    'registry',
    'temporal',
    'temporal-role',
    'temporal-ui',
    'turn',
    'worker',
  ]);
  const text = fs.readFileSync(path.join(root, 'docker-compose.yml'), 'utf8');
  // The number cannot be changed later, and four limit a platform that grows.
  expect(text).toContain('NUM_HISTORY_SHARDS: 512\n');
  const scripts = [...text.matchAll(/\b(?:api|gateway|worker|db|ops)\/[\w/-]+\.ts\b/g)].map(([script]) => script);
  expect(scripts).toEqual(
    expect.arrayContaining(['api/server.ts', 'gateway/server.ts', 'worker/control.ts', 'worker/host.ts']),
  );
  for (const script of scripts) expect(fs.existsSync(path.join(root, script))).toBe(true);
});

test("every service that connects to sandboxes is in the machine's own network", async () => {
  const stdout = await composeConfig();
  const services = stdout.split(/\n {2}(?=\w)/);
  for (const name of ['api', 'gateway', 'host']) {
    expect(services.find((service) => service.startsWith(`${name}:`))).toContain('network_mode: host');
  }
});

test("each process's metrics have a separate loopback port, which the Prometheus configuration contains", async () => {
  const config = fs.readFileSync(path.join(root, 'ops/monitoring/prometheus-compose.yml'), 'utf8');
  const scraped = [...config.matchAll(/targets: \["(\S+?)"\], labels: \{ process: (\w+) \}/g)].map(([, at, name]) => [
    name,
    at,
  ]);
  expect(scraped.map(([name]) => name)).toEqual(['api', 'gateway', 'worker', 'host']);
  const stdout = await composeConfig();
  const services = stdout.split(/\n {2}(?=\w)/);
  for (const [name, at] of scraped) {
    const service = services.find((each) => each.startsWith(`${name}:`))!;
    const [address, port] = at!.split(':');
    expect(service).toMatch(new RegExp(`PLATFORM_${name!.toUpperCase()}_METRICS_PORT: '?${port}'?\\n`));
    if (service.includes('network_mode: host')) expect(service).toContain(`PLATFORM_METRICS_HOST: ${address}\n`);
    else expect(service).toContain(`- ${at}:${port}/tcp\n`);
  }
  await promisify(execFile)('promtool', ['check', 'config', '--syntax-only', 'ops/monitoring/prometheus-compose.yml'], {
    cwd: root,
  });
});

test('every setting can be set in .env, except those that this file sets', async () => {
  const names = Object.keys(settingsSchema.shape);
  // Another test checks the metrics, because compose reads their ports and addresses.
  const decided =
    /^(PLATFORM_(DATA_DIR|CACHE_DIR|API_(HOST|PORT)|GATEWAY_HOST|REGISTRY\w*|\w*METRICS_\w+)|DATABASE_\w*URL|TEMPORAL_\w+)$/;
  const taken = names.filter((name) => !decided.test(name));
  expect(taken.length).toBeGreaterThan(80);
  const stdout = await composeConfig([], Object.fromEntries(taken.map((name) => [name, `given-${name}`])));
  expect(taken.filter((name) => !stdout.includes(`${name}: given-${name}\n`))).toEqual([]);
});

test('Temporal uses its own role', async () => {
  const stdout = await composeConfig();
  const services = stdout.split(/\n {2}(?=\w)/);
  const findUser = (name: string) =>
    /\n {6}POSTGRES_USER: (\w+)/.exec(services.find((service) => service.startsWith(`${name}:`))!)?.[1];
  expect([findUser('postgres'), findUser('temporal')]).toEqual(['platform', 'temporal']);
});

test('every service has time to stop, and its log has a limit', async () => {
  const stdout = await composeConfig();
  const [list = ''] = stdout.split('\nversion:');
  const services = list.split(/\n {2}(?=\w)/).slice(1);
  expect(services.length).toBe(11);
  for (const service of services) {
    expect(service).toMatch(/\n {4}stop_grace_period: \d+s/);
    expect(service).toContain(
      "logging:\n      driver: json-file\n      options:\n        max-file: '2'\n        max-size: 20m",
    );
  }
});

test.each(Object.keys(passwords))('without %s, docker-compose names it and starts nothing', async (name) => {
  await expect(composeConfig([], { [name]: '' })).rejects.toMatchObject({
    stderr: expect.stringMatching(new RegExp(`: set ${name} in \\.env\\n$`)),
  });
});
