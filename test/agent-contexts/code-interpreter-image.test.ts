import path from 'node:path';
import { ExecutionService } from '../../agent/proto/gen/sandboxagent_pb.js';
import { cacheDir } from '../../ops/setup/toolchain/locations.mjs';
import { ensureCodeInterpreterImage } from '../../runtime/images/code-interpreter-image.ts';
import { TestAgent } from '../agent/support/agent.ts';
import { PrivateRoot } from '../agent/support/private-root.ts';
import { makingMs } from './support/real-kernels.ts';

const recipeDir = path.resolve(import.meta.dirname, '../../runtime/images/code-interpreter');

let agent: TestAgent;
let root: PrivateRoot;

beforeAll(async () => {
  const image = await ensureCodeInterpreterImage({ cacheDir: cacheDir(), recipeDir });
  root = await PrivateRoot.over(image.rootfs, cacheDir());
  agent = await TestAgent.start(root.options(image.config.env));
}, makingMs);
afterAll(async () => {
  await agent?.stop();
  root?.remove();
});

async function run(language: string, code: string) {
  const output = { stdout: '', png: '', chart: '', text: '', error: '' };
  for await (const { event } of agent.client(ExecutionService).execute({ language, code })) {
    if (event.case === 'stdout') output.stdout += event.value.content;
    if (event.case === 'error') output.error += `${event.value.name}: ${event.value.value}`;
    if (event.case !== 'result') continue;
    output.png += event.value.png;
    output.chart += event.value.chart?.type ?? '';
    output.text = event.value.text;
  }
  return output;
}

test('Python has pandas and matplotlib, whose plots are png and chart', async () => {
  const code = 'import pandas\npandas.DataFrame({"n": [1, 2]}).plot.bar()\nNone';
  const { png, chart, error } = await run('python', code);
  expect(error).toBe('');
  expect(png).toMatch(/^iVBORw0KGgo/);
  expect(chart).toBe('bar');
});

test('JavaScript and TypeScript run on the Node that every sandbox has', async () => {
  expect((await run('javascript', 'import { sep } from "node:path"; sep + process.execPath')).text).toBe(
    "'//.platform/bin/node'",
  );
  expect((await run('typescript', 'const n: number = 4; n')).text).toBe('4');
});

test('node, npm, python and pip are available to programs, too', async () => {
  const { stdout, error } = await run(
    'bash',
    'node --version; npm --version; python --version; pip --version; echo ok >/dev/stderr',
  );
  expect(error).toBe('');
  expect(stdout).toMatch(/^v24\..*\n11\..*\nPython 3\..*\npip .*\n$/);
});

test('errors of missing languages name the packages to install', async () => {
  await expect(run('r', '1')).rejects.toThrow(/failed_precondition.*r-cran-irkernel/s);
  await expect(run('java', '1')).rejects.toThrow(/failed_precondition.*JDK/s);
});
