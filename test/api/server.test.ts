import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { bootstrap } from '../../db/bootstrap.ts';
import { createOrm } from '../../db/orm.ts';
import { type TestDatabase, temporalAddress, testDatabase } from '../support/stack.ts';
import { until } from '../support/until.ts';

const root = path.resolve(import.meta.dirname, '../..');
let database: TestDatabase;
const started: ChildProcess[] = [];

let apiKey: string;

beforeAll(async () => {
  database = await testDatabase();
  const orm = await createOrm(database.url, 1);
  const made = await bootstrap(orm, { email: 'root@example.com', planName: 'hobby', baseImage: 'builtin:base' });
  apiKey = made!.apiKey;
  await orm.close();
});
afterAll(async () => {
  for (const child of started) if (child.exitCode === null) child.kill('SIGKILL');
  await database.drop();
});

function start(env: Record<string, string>): { child: ChildProcess; lines: string[]; ready: Promise<string> } {
  const child = spawn(process.execPath, ['api/server.ts'], {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  started.push(child);
  const lines: string[] = [];
  const ready = new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout!, child.stderr!]) {
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        if (line.includes('"msg":"ready"')) resolve(JSON.parse(line).address);
      });
    }
    // At the end of its output.
    child.once('close', () => reject(new Error(`it ended before it was ready:\n${lines.join('\n')}`)));
  });
  return { child, lines, ready };
}

async function connect(port: number): Promise<net.Socket> {
  const socket = net.connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.on('error', () => {});
  return socket;
}

const secret = Buffer.alloc(32, 3).toString('base64');

test('it needs only its environment, and stops gracefully on request', async () => {
  const { child, lines, ready } = start({
    PLATFORM_SECRET_KEY: secret,
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: await temporalAddress(),
    PLATFORM_API_PORT: '0',
  });
  const address = await ready;
  let readiness: unknown;
  // On a busy machine a check may need more than its time.
  await until(async () => {
    const reply = await fetch(`${address}/readyz`);
    readiness = await reply.json();
    return reply.status === 200;
  });
  const queue = { state: 'ok', oldest_task_seconds: 0 };
  expect(readiness).toEqual({
    ...{ status: 'ready', checks: { postgres: 'ok', temporal: 'ok' } },
    queues: { sandboxes: queue, webhooks: queue, images: queue, money: queue, upkeep: queue },
  });
  expect((await fetch(`${address}/v1/users/me`)).status).toBe(401);
  expect((await fetch(`${address}/metrics`)).status).toBe(401);
  expect((await fetch(`${address}/metrics`, { headers: { 'x-api-key': apiKey } })).status).toBe(200);
  expect(((await (await fetch(`${address}/openapi.json`)).json()) as { openapi: string }).openapi).toMatch(/^3\.1/);

  // A connection without a request does not delay the end. A request is answered.
  const port = Number(new URL(address).port);
  const idle = await connect(port);
  const asking = await connect(port);
  const body = JSON.stringify({ name: 'Last' });
  asking.write(
    `POST /v1/projects HTTP/1.1\r\nHost: api\r\nX-API-Key: ${apiKey}\r\nContent-Type: application/json\r\n` +
      `Expect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  await once(asking, 'data');
  const ended = once(child, 'close');
  child.kill('SIGTERM');
  await until(() =>
    connect(port).then(
      (socket) => !socket.destroy(),
      () => true,
    ),
  );
  asking.write(body);
  const [reply] = await once(asking, 'data');
  expect(String(reply)).toMatch(/^HTTP\/1.1 201 /);
  expect((await ended)[0]).toBe(0);
  idle.destroy();
  asking.destroy();
  expect(lines.some((line) => line.includes('"msg":"stopped"'))).toBe(true);
  for (const line of lines) expect(() => JSON.parse(line)).not.toThrow();
  expect(lines.join('\n')).not.toContain(secret);
});

test('with wrong settings it does not start, and prints their names without values', async () => {
  const { child, lines, ready } = start({ PLATFORM_SECRET_KEY: 'too-short-secret', PLATFORM_API_PORT: 'eighty' });
  await expect(ready).rejects.toThrow('it ended before it was ready');
  expect(child.exitCode).not.toBe(0);
  const output = lines.join('\n');
  for (const name of ['PLATFORM_SECRET_KEY', 'PLATFORM_API_PORT', 'DATABASE_URL']) expect(output).toContain(name);
  expect(output).not.toContain('too-short-secret');
});
