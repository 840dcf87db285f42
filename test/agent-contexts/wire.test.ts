import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Code, ConnectError } from '@connectrpc/connect';
import {
  ContextService,
  type ExecuteResponse,
  ExecutionService,
  type Result,
} from '../../agent/proto/gen/sandboxagent_pb.js';
import { headers, type Protocol, sandbox, TestAgent } from '../agent/support/agent.ts';
import { until } from '../support/until.ts';
import { isAlive } from './support/contexts.ts';
import { makingMs, realPython } from './support/real-kernels.ts';

/** The services as clients use them: the built agent, over HTTP. */
let agent: TestAgent;
let bundle: string;

beforeAll(async () => {
  const python = await realPython();
  bundle = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-bundle-'));
  const out = path.join(bundle, 'agent');
  execFileSync(process.execPath, [path.resolve(import.meta.dirname, '../../agent/build.mjs'), '--out', out]);
  agent = await TestAgent.start({
    folder: out,
    boot: { platformToken: 'platform', init: sandbox({ env: { FROM_SANDBOX: 'yes' } }) },
    env: { PATH: `${python}:/usr/bin:/bin`, TMPDIR: bundle },
  });
}, makingMs);
afterAll(async () => {
  await agent?.stop();
  if (bundle) fs.rmSync(bundle, { recursive: true, force: true });
});

async function execute(
  request: { contextId?: string; language?: string; code: string },
  protocol: Protocol = 'connect+json',
): Promise<ExecuteResponse['event'][]> {
  const events: ExecuteResponse['event'][] = [];
  for await (const { event } of agent.client(ExecutionService, protocol).execute(request)) events.push(event);
  return events;
}

/** The printed text, regardless of its pieces. */
const printed = (events: ExecuteResponse['event'][]) =>
  events.map((event) => (event.case === 'stdout' ? event.value.content : '')).join('');

function results(events: ExecuteResponse['event'][]): Result[] {
  return events.flatMap((event) => (event.case === 'result' ? [event.value] : []));
}

test.each(['connect+json', 'connect+proto', 'grpc-web', 'grpc'] as const)(
  'a run of each language streams its output and ends with its result, over %s',
  async (protocol) => {
    const codes = {
      bash: 'echo "hi $FROM_SANDBOX"',
      node: 'import os from "node:os"; console.log("hi", process.env.FROM_SANDBOX); 1 + 1',
      typescript: 'const two: number = 1 + 1; console.log("hi", process.env.FROM_SANDBOX); two',
      python: 'import os; print("hi", os.environ["FROM_SANDBOX"]); 1 + 1',
    };
    for (const [language, code] of Object.entries(codes)) {
      const events = await execute({ language, code }, protocol);
      expect(printed(events)).toBe('hi yes\n');
      expect(events.map((event) => event.case).filter((each) => each !== 'stdout')).toEqual(['result']);
      expect(events.at(-1)!.value).toMatchObject({
        isMainResult: true,
        text: language === 'bash' ? '' : '2',
        exitCode: 0,
      });
    }
  },
);

test("a plot is returned as png and chart, in the contract's JSON", async () => {
  const code =
    'import matplotlib.pyplot as plt\nplt.plot([1, 2], ["low", "high"], label="l")\nplt.title("T")\nplt.show()';
  const [plot, main] = results(await execute({ language: 'python', code }));
  expect(Buffer.from(plot!.png, 'base64').subarray(1, 4).toString()).toBe('PNG');
  expect(plot!.isMainResult).toBe(false);
  expect(main!.isMainResult).toBe(true);

  const body = Buffer.from(JSON.stringify({ language: 'python', code }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  const reply = await fetch(`${agent.address}/sandboxagent.ExecutionService/Execute`, {
    method: 'POST',
    headers: headers({ 'content-type': 'application/connect+json' }),
    body: Buffer.concat([head, body]),
  });
  const bytes = Buffer.from(await reply.arrayBuffer());
  const first = JSON.parse(bytes.toString('utf8', 5, 5 + bytes.readUInt32BE(1)));
  expect(first.result.chart).toMatchObject({
    type: 'line',
    title: 'T',
    elements: [
      {
        pointData: {
          label: 'l',
          points: [
            { xNum: 1, yStr: 'low' },
            { xNum: 2, yStr: 'high' },
          ],
        },
      },
    ],
    extra: { x_scale: 'linear', y_scale: 'categorical' },
  });
});

test('a context is created and destroyed by plain JSON calls', async () => {
  const { json: context } = await agent.post('ContextService/CreateContext', { language: 'bash', cwd: '/usr' });
  expect(context).toEqual({
    id: expect.stringMatching(/^ctx-/),
    language: 'bash',
    cwd: '/usr',
    createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    envVars: {},
  });
  const events = await execute({ contextId: context.id, code: 'pwd; echo $$' });
  const [pwd, pid] = printed(events).split('\n');
  expect(pwd).toBe('/usr');
  const destroy = () => agent.post('ContextService/DestroyContext', { context_id: context.id });
  expect(await destroy()).toEqual({ status: 200, json: { success: true } });
  await until(() => !isAlive(Number(pid)));
  expect(await destroy()).toMatchObject({
    status: 404,
    json: { code: 'not_found', message: expect.stringContaining('not found') },
  });
});

test('errors are Connect errors with the right codes', async () => {
  const catchCode = (request: Parameters<typeof execute>[0]) =>
    execute(request).then(
      () => undefined,
      (error) => ConnectError.from(error).code,
    );
  expect(await catchCode({ language: 'cobol', code: '' })).toBe(Code.InvalidArgument);
  expect(await catchCode({ contextId: 'ctx-unknown', code: '' })).toBe(Code.NotFound);
  expect(await catchCode({ language: 'r', code: '1' })).toBe(Code.FailedPrecondition);
  const contexts = agent.client(ContextService);
  await expect(contexts.createContext({ language: 'bash', cwd: '/etc/passwd' })).rejects.toMatchObject({
    code: Code.InvalidArgument,
  });
});

test('a client that closes its connection interrupts the code, and the state stays', async () => {
  const language = 'python';
  await execute({ language, code: 'kept = 1' });
  const abort = new AbortController();
  const running = agent
    .client(ExecutionService)
    .execute({ language, code: 'import time\nprint("on", flush=True)\ntime.sleep(1000)' }, { signal: abort.signal });
  await expect(
    (async () => {
      for await (const { event } of running) if (event.case === 'stdout') abort.abort();
    })(),
  ).rejects.toMatchObject({ code: Code.Canceled });
  expect(results(await execute({ language, code: 'kept' }))[0]!.text).toBe('1');
});

test('the kernels of a killed agent end with it', async () => {
  const doomed = await TestAgent.start({
    folder: path.join(bundle, 'agent'),
    env: { PATH: `${await realPython()}:/usr/bin:/bin`, TMPDIR: bundle },
  });
  const pids: number[] = [];
  const codes = {
    python: 'import os; print(os.getpid())',
    node: 'console.log(process.pid)',
    bash: 'echo $$ $PPID',
    java: 'System.out.println(ProcessHandle.current().pid())',
  };
  try {
    for (const [language, code] of Object.entries(codes)) {
      const events: ExecuteResponse['event'][] = [];
      for await (const { event } of doomed.client(ExecutionService).execute({ language, code })) events.push(event);
      pids.push(...printed(events).trim().split(' ').map(Number));
    }
  } finally {
    await doomed.stop();
  }
  expect(pids).toHaveLength(5);
  await until(() => !pids.some(isAlive));
});

test('data of a table, or the reason why it is missing, is for callers that ask for it', async () => {
  const code = 'import pandas\npandas.DataFrame({"n": [2**53 + 1]})';
  for (const [header, data] of [
    [{}, ''],
    [{ 'accept-result-data': '1' }, '{"n": [9007199254740993]}'],
  ] as const) {
    const found: Result[] = [];
    const client = agent.client(ExecutionService, 'connect+json', header);
    for await (const { event } of client.execute({ language: 'python', code })) {
      if (event.case === 'result') found.push(event.value);
    }
    expect(found).toMatchObject([{ html: expect.stringContaining('<table'), data, json: '', extra: {} }]);
  }
});

test('an agent without free descriptors refuses contexts, and makes them again later', async () => {
  const full = await TestAgent.start({
    folder: path.join(bundle, 'agent'),
    env: { PATH: '/usr/bin:/bin', TMPDIR: bundle },
    through: ['prlimit', '--nofile=96:96'],
  });
  try {
    const contexts = full.client(ContextService);
    const kernelFolders = () => fs.readdirSync(bundle).filter((name) => name.startsWith('context-')).length;
    const before = kernelFolders();
    const made: string[] = [];
    for (const language of ['bash', 'node', 'bash'] as const) {
      const refused = await (async () => {
        for (;;) made.push((await contexts.createContext({ language })).id);
      })().catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: Code.ResourceExhausted });
    }
    expect(kernelFolders() - before).toBe(made.length);
    for (const contextId of made.splice(1)) await contexts.destroyContext({ contextId });
    made.push((await contexts.createContext({ language: 'bash' })).id);
    const events: string[] = [];
    for await (const { event } of full.client(ExecutionService).execute({ contextId: made[0]!, code: 'echo ok' }))
      events.push(event.case!);
    expect(events).toEqual(['stdout', 'result']);
  } finally {
    await full.stop();
  }
});
