import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { heapFlags } from '../../config/heap-limits.ts';
import { bootstrap } from '../../db/bootstrap.ts';
import { createOrm } from '../../db/orm.ts';
import { testDatabase } from '../../test/support/stack.ts';
import { TestStack } from '../../test/support/test-stack.ts';
import { inTurn, summarize } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';
import { ordinaryBody, worstBodies } from './worst-bodies.ts';

/** How long the worst body of its size holds up each route, beside an ordinary one. `npm run bench -- bodies` */
const times = 7;

const stack = await TestStack.listen();
process.env.TEST_STACK_SOCKET = stack.socket;
const database = await testDatabase();
const orm = await createOrm(database.url, 1);
const account = await bootstrap(orm, { email: 'root@example.com', planName: 'enterprise', baseImage: 'builtin:base' });
await orm.close();
const api = fork(path.join(import.meta.dirname, 'measured-server.ts'), {
  execArgv: heapFlags('api/server.ts', {}),
  env: {
    PATH: process.env.PATH,
    PLATFORM_SECRET_KEY: Buffer.alloc(32, 3).toString('base64'),
    DATABASE_URL: database.url,
    PLATFORM_API_PORT: '0',
    PLATFORM_RATE_LIMIT_PER_KEY: '0',
    PLATFORM_RATE_LIMIT_PER_ADDRESS: '0',
  },
  stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
});
try {
  const url = await new Promise<string>((resolve) => {
    createInterface({ input: api.stdout! }).on('line', (line) => {
      if (line.includes('"msg":"ready"')) resolve(JSON.parse(line).address);
    });
  });
  const key = account!.apiKey;
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { 'x-max-body-bytes'?: number }>>;
  };
  const rows: Row[] = [];
  for (const [template, operations] of Object.entries(paths)) {
    for (const [method, { 'x-max-body-bytes': limit }] of Object.entries(operations)) {
      if (!limit) continue;
      const where = `${url}${template.replaceAll(/\{\w+\}/g, 'none')}`;
      rows.push(await measureRoute(`${method.toUpperCase()} ${template}`, method, where, key, limit));
    }
  }
  printTable('Event loop delay under the worst body of a route', rows);
} finally {
  const ended = once(api, 'exit');
  api.kill('SIGTERM');
  await ended;
  await stack.stop();
}

async function measureRoute(name: string, method: string, url: string, key: string, bytes: number): Promise<Row> {
  const ordinary = await longestDelay(method, url, key, ordinaryBody(bytes - 16));
  let worst = { name: '', delayMs: 0 };
  for (const { name: kind, text } of worstBodies(bytes - 16)) {
    const delayMs = await longestDelay(method, url, key, text);
    if (delayMs > worst.delayMs) worst = { name: kind, delayMs };
  }
  return {
    measure: `${name}, ${bytes / 1024} KiB: ${worst.name}`,
    value: worst.delayMs.toFixed(1),
    unit: 'ms',
    goal: holdAgainst(worst.delayMs, 3 * ordinary, 'ms'),
  };
}

/** The median over some requests of the longest delay during each. */
async function longestDelay(method: string, url: string, key: string, body: string): Promise<number> {
  const delays = await inTurn(times, async () => {
    await askDelay();
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const reply = await fetch(url, { method: method.toUpperCase(), headers, body });
    await reply.arrayBuffer();
    if (reply.status >= 500) throw new Error(`${url} answered ${reply.status}`);
    return askDelay();
  });
  return summarize(delays).p50;
}

async function askDelay(): Promise<number> {
  api.send('delay');
  const [delayMs] = await once(api, 'message');
  return delayMs;
}
