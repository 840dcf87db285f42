import { once } from 'node:events';
import http from 'node:http';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';

/**
 * Compares exec through the API with the agent's own Start, alternately, and batches with single commands. Batches use
 * real containers, and are measured until their reply: 202, when each sandbox has accepted.
 */
const times = Number(process.env.BENCH_TIMES ?? 60);
const batchSize = 100;
const small = { cpu_count: 1, memory_mb: 128, storage_gb: 1 };
const goalOverStartMs = 15;

const platform = new RunningPlatform({
  PLATFORM_WARM_POOL_SIZE: '0',
  PLATFORM_RATE_LIMIT_PER_KEY: '0',
});
await platform.start();
try {
  const client = platform.client();
  const sandbox = await client.createSandbox(small);
  printTable('Exec', await measureExec(client, sandbox));
  printTable('Batches', await measureBatches(client));
} finally {
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
}

async function measureExec(client: PlatformClient, sandbox: SandboxView): Promise<Row[]> {
  const agent = new AgentClient(String(sandbox.sandbox_domain_internal), sandbox.envd_access_token);
  const sockets = new http.Agent({ keepAlive: true });
  const exec = async () => {
    const url = `/v1/sandboxes/${sandbox.sandbox_id}/exec`;
    const { status, body } = await client.request('POST', url, { command: 'true' });
    if (status !== 201) throw new Error(`exec: ${status} ${body.error}`);
    const { stream_path: path } = body as unknown as { stream_path: string };
    const request = http.get(`${platform.env.PLATFORM_URL}${path}`, { agent: sockets });
    const [reply] = (await once(request, 'response')) as [http.IncomingMessage];
    let output = '';
    for await (const chunk of reply) output += chunk;
    if (!output.includes('"exit_code":0')) throw new Error(`the command ended otherwise: ${output}`);
  };
  const start = async () => {
    const { exitCode } = await agent.run('bash', ['-c', 'true']);
    if (exitCode !== 0) throw new Error(`the command ended with ${exitCode}`);
  };
  await inTurn(5, () => timed(exec));
  await inTurn(5, () => timed(start));
  const execs: number[] = [];
  const starts: number[] = [];
  await inTurn(times, async () => {
    starts.push(await timed(start));
    execs.push(await timed(exec));
    return 0;
  });
  agent.close();
  sockets.destroy();
  const own = summarize(starts);
  const through = summarize(execs);
  return [
    { measure: "the agent's own Start of `bash -c true`, to its end", value: own, unit: 'ms' },
    {
      measure: 'exec of `true`, POST to `end`',
      value: through,
      unit: 'ms',
      goal: holdAgainst(through.p50, own.p50 + goalOverStartMs, 'ms'),
    },
  ];
}

async function measureBatches(client: PlatformClient): Promise<Row[]> {
  const singles = await createMany(client, 10);
  const one = summarize(
    await inTurn(singles.length, (index) =>
      timed(() => accepted(client, `/v1/sandboxes/${singles[index]}/terminate`, undefined)),
    ),
  );
  await untilTerminated(client, singles.length);
  const many = await createMany(client, batchSize);
  const startedMs = performance.now();
  await accepted(client, '/v1/sandboxes/batch-terminate', { sandbox_ids: many });
  const answeredMs = performance.now() - startedMs;
  await untilTerminated(client, singles.length + many.length);
  const endedMs = performance.now() - startedMs;
  return [
    { measure: 'terminate one, to its answer', value: one, unit: 'ms' },
    {
      measure: `batch-terminate ${batchSize}, to its answer`,
      value: answeredMs.toFixed(0),
      unit: 'ms',
      goal: holdAgainst(answeredMs, 5 * one.p50, 'ms'),
    },
    { measure: `… until all ${batchSize} containers are gone`, value: endedMs.toFixed(0), unit: 'ms' },
  ];
}

async function createMany(client: PlatformClient, count: number): Promise<string[]> {
  const ids: string[] = [];
  const worker = async () => {
    while (ids.length < count) {
      const place = ids.push('') - 1;
      ids[place] = (await client.createSandbox({ ...small, timeout: 3600 })).sandbox_id;
    }
  };
  await Promise.all(Array.from({ length: 5 }, worker));
  return ids;
}

async function accepted(client: PlatformClient, path: string, body: unknown): Promise<void> {
  const reply = await client.request<{ failed?: number }>('POST', path, body);
  if (reply.status !== 202 || reply.body.data.failed) throw new Error(`${path}: ${JSON.stringify(reply.body)}`);
}

async function untilTerminated(client: PlatformClient, count: number): Promise<void> {
  for (;;) {
    const { body } = await client.request<{ pagination: { total: number } }>(
      'GET',
      '/v1/sandboxes?limit=1&status=terminated',
    );
    if (body.data.pagination.total === count) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
