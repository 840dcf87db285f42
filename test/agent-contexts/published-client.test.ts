import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { sandbox, TestAgent, token } from '../agent/support/agent.ts';
import { madeOnce } from '../support/made-once.ts';
import { makingMs } from './support/real-kernels.ts';

const run = promisify(execFile);
const sources = path.join(import.meta.dirname, 'published-client');

/** Generates code from protos as Python clients do, with the compiler of the package index. */
const generator = 'grpcio-tools==1.85.1';

let agent: TestAgent;
let python: string;

beforeAll(async () => {
  const folder = await madeOnce('test-proto-python', [generator], async (made) => {
    await run('python3', ['-m', 'venv', made]);
    await run(path.join(made, 'bin/pip'), ['install', '--quiet', generator]);
  });
  python = path.join(folder, 'bin/python');
  agent = await TestAgent.start({ boot: { platformToken: 'platform', init: sandbox() } });
}, makingMs);
afterAll(() => agent?.stop());

test('a Python client reads the times of contexts and results as timestamps, over binary Connect', async () => {
  const before = Date.now();
  await run(python, ['-m', 'grpc_tools.protoc', `-I${sources}`, `--python_out=${agent.folder}`, 'contexts.proto']);
  const { stdout } = await run(python, [path.join(sources, 'client.py'), `127.0.0.1:${agent.port}`, token], {
    env: { ...process.env, PYTHONPATH: agent.folder, PYTHONDONTWRITEBYTECODE: '1' },
  });
  const read = JSON.parse(stdout) as Record<'createdAt' | 'startedAt' | 'finishedAt', number>;
  expect(read).toMatchObject({ cwd: '/tmp', stdout: 'hello\n' });
  expect(read.createdAt).toBeGreaterThanOrEqual(before);
  expect(read.startedAt).toBeGreaterThanOrEqual(read.createdAt);
  expect(read.finishedAt).toBeGreaterThan(read.startedAt);
  expect(read.finishedAt).toBeLessThanOrEqual(Date.now());
});
