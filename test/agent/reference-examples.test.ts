import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { Process } from '../../agent/proto/gen/sandboxagent_pb.js';
import { agentDocument } from '../../api/openapi/agent/document.ts';
import {
  type AgentOperation,
  agentOperations,
  exampleContextId,
  exampleWatcherId,
} from '../../api/openapi/agent/operations.ts';
import { createSamples } from '../../api/openapi/agent/samples.ts';
import { until } from '../support/until.ts';
import { platformToken, sandbox, TestAgent, token } from './support/agent.ts';

/** Every example of the reference, unchanged, against the real agent. */
const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');
const plain = (agentDocument('sandbox.localhost') as Json).paths;
let agent: TestAgent;

// biome-ignore lint/suspicious/noExplicitAny: any JSON
type Json = any;

beforeEach(async () => {
  agent = await TestAgent.start({ boot: { platformToken, init: sandbox() } });
  await shell(plain['/upload'].post['x-codeSamples'][0].source);
});
afterEach(async () => {
  await agent.stop();
});

const environment = () => ({ ...process.env, NODE_OPTIONS: '', DOMAIN: new URL(agent.address).host, TOKEN: token });
/** Here the examples use a separate folder. */
const local = (source: string) => source.replaceAll('/tmp/example', agent.path('example'));
const shell = async (source: string) => (await run('bash', ['-c', local(source)], { env: environment() })).stdout;

/** The processes that the examples use: one that reads, and one on a terminal. */
async function startProcesses(): Promise<void> {
  const client = agent.client(Process);
  const started = [
    { process: { cmd: 'cat' }, tag: 'example' },
    { process: { cmd: 'cat' }, tag: 'reader' },
    { process: { cmd: 'cat' }, pty: { size: { cols: 80, rows: 24 } }, tag: 'terminal' },
  ];
  for (const request of started) {
    for await (const { event } of client.start(request)) if (event?.event.case === 'start') break;
  }
}

/** Replaces the ids in the examples, which no real sandbox has. */
class Ids {
  readonly #ids = new Map<string, string>();

  note({ watcherId, id }: { watcherId?: string; id?: string }): void {
    if (watcherId) this.#ids.set(exampleWatcherId, watcherId);
    if (id) this.#ids.set(exampleContextId, id);
  }

  put(source: string): string {
    return [...this.#ids].reduce((text, [example, real]) => text.replaceAll(example, real), source);
  }
}

const isEmptyMap = (value: unknown) => JSON.stringify(value) === '{}';

/** Checks that a reply has at least the fields of the example. */
function expectLike(operation: AgentOperation, reply: Json): void {
  // Libraries leave lists and maps out when they are empty.
  const fields = Object.entries(operation.replies[0]!)
    .filter(([, value]) => !Array.isArray(value) && !isEmptyMap(value))
    .map(([name]) => name);
  expect([operation.procedure, Object.keys(reply)]).toEqual([operation.procedure, expect.arrayContaining(fields)]);
}

test('with curl', async () => {
  await startProcesses();
  expect(await shell(plain['/health'].get['x-codeSamples'][0].source)).toContain('OK');
  expect(await shell(plain['/download/{path}'].get['x-codeSamples'][0].source)).toBe('hello\n');
  expect(await shell(plain['/archive'].get['x-codeSamples'][0].source)).toBe('./\na.txt\n');
  const { post } = plain['/archive'];
  const unpacked = JSON.parse(await shell(post['x-codeSamples'][0].source));
  expect(unpacked).toEqual(post.responses[200].content['application/json'].example);
  fs.rmSync(agent.path('example/copy'), { recursive: true });
  const ids = new Ids();
  const streams: ReturnType<typeof spawn>[] = [];
  for (const operation of agentOperations) {
    const source = ids.put(createSamples(operation)[0]!.source);
    if (operation.isEndless) {
      // `tr` buffers its output until the end.
      const words = ['-c', local(source.replace(" | tr -d '\\000'", ''))];
      const following = spawn('bash', words, { env: environment(), detached: true });
      let output = '';
      following.stdout.on('data', (chunk) => {
        output += chunk;
      });
      streams.push(following);
      await until(() => output.includes('"start"'));
      continue;
    }
    const output = await shell(source);
    expect(output).not.toContain('"error":{"code"');
    if (operation.stream === undefined) {
      const reply = JSON.parse(output);
      ids.note(reply);
      expectLike(operation, reply);
    } else if (operation.stream === 'server') {
      for (const field of Object.keys(operation.replies.at(-1)!)) expect(output).toContain(`"${field}"`);
    }
  }
  for (const { pid, exitCode } of streams) if (exitCode === null) process.kill(-pid!);
}, 300_000);

test.each(['Connect', 'gRPC'])(
  'with a %s client',
  async (label) => {
    await startProcesses();
    const folder = path.join(agent.folder, label);
    fs.cpSync(path.join(root, 'agent/proto/gen'), path.join(folder, 'gen'), { recursive: true });
    fs.symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
    fs.writeFileSync(path.join(folder, 'package.json'), '{"type": "module"}');
    const samples = agentOperations.map((operation) => {
      const { source } = createSamples(operation).find((sample) => sample.label === label)!;
      return { name: operation.procedure, isEndless: operation.isEndless ?? false, source: local(source) };
    });
    fs.writeFileSync(path.join(folder, 'samples.json'), JSON.stringify(samples));
    fs.writeFileSync(path.join(folder, 'run.mjs'), runner);
    const { stdout } = await run(process.execPath, ['run.mjs', exampleWatcherId, exampleContextId], {
      ...{ cwd: folder, env: environment(), timeout: 100_000 },
    });
    const shown = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as [name: string, message: Json]);
    for (const operation of agentOperations) {
      const messages = shown.filter(([name]) => name === operation.procedure);
      expect([operation.procedure, messages.length > 0]).toEqual([operation.procedure, true]);
      expectLike(operation, messages[0]![1]);
    }
  },
  300_000,
);

test('every procedure of the agent is in the reference, with a description and examples', () => {
  const proto = fs.readFileSync(path.join(root, 'agent/proto/sandboxagent.proto'), 'utf8');
  const services = [...proto.matchAll(/^service (\w+) \{([\s\S]*?)^\}/gm)];
  const procedures = services.flatMap(([, service, body]) =>
    [...body!.matchAll(/rpc (\w+)/g)].map(([, method]) => `${service}/${method}`),
  );
  expect(agentOperations.map(({ procedure }) => procedure).sort()).toEqual(procedures.sort());
  expect(Object.keys(plain)).toHaveLength(24);
  for (const item of Object.values<Json>(plain)) {
    for (const operation of Object.values<Json>(item)) {
      expect(operation.description).toMatch(/\w{3}/);
      expect(operation['x-codeSamples'].length).toBeGreaterThan(0);
      const contents = [operation.requestBody?.content, operation.responses[200].content];
      for (const content of contents) if (content) expect(Object.values<Json>(content)[0].example).toBeDefined();
    }
  }
});

/** Runs the samples one after the other in one process. An endless one continues in parallel with the next. */
const runner = `
import fs from 'node:fs';
const [watcherId, contextId] = process.argv.slice(2);
const ids = new Map();
const seen = new Set();
globalThis.show = (name, message) => {
  seen.add(name);
  if (message.watcherId) ids.set(watcherId, message.watcherId);
  if (message.id) ids.set(contextId, message.id);
  fs.writeSync(1, JSON.stringify([name, message]) + '\\n');
};
for (const [index, { name, isEndless, source }] of JSON.parse(fs.readFileSync('samples.json', 'utf8')).entries()) {
  let text = source.replaceAll('console.log(', 'show(' + JSON.stringify(name) + ', ');
  for (const [example, real] of ids) text = text.replaceAll(example, real);
  fs.writeFileSync('sample-' + index + '.ts', text);
  const done = import('./sample-' + index + '.ts');
  if (!isEndless) await done;
  else {
    done.catch((error) => { console.error(error); process.exit(1); });
    while (!seen.has(name)) await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
process.exit(0);
`;
