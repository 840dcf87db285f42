import { RunningPlatform } from '../../support/running-platform.ts';
import { type ProjectWithClient, readPrograms } from '../packed-client.ts';
import { projectWithAdapter } from './adapter-project.ts';

/** The adapter of the AI SDK against the whole platform, with the published packages. The SDK's mock is the model. */
let platform: RunningPlatform;
let project: ProjectWithClient;

beforeAll(async () => {
  [project, platform] = await Promise.all([projectWithAdapter('ai-sdk'), RunningPlatform.shared()]);
}, 300_000);

afterAll(async () => {
  project?.remove();
  await platform?.leave();
}, 300_000);

/** `agent(steps)` runs the loop of the SDK with a model whose replies are the steps, and returns the result of each tool. */
const start = `
import assert from 'node:assert/strict';
import { generateText, stepCountIs, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { Sandbox } from '@sandbox-platform/client';
import { sandboxSession, sandboxTools } from '@sandbox-platform/ai-sdk';
import { z } from 'zod';

type Step = [string, object | ((before: any) => object)];
async function agent(sandbox: Sandbox, steps: Step[], more: object = {}) {
  const outputs: any[] = [];
  const model = new MockLanguageModelV4({
    doGenerate: async () => {
      const [toolName, input] = steps[model.doGenerateCalls.length - 1] ?? [];
      const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };
      const usage = { inputTokens: tokens, outputTokens: tokens };
      if (!toolName) return { content: [{ type: 'text', text: 'finished' }], finishReason: { unified: 'stop', raw: 'stop' }, usage, warnings: [] };
      const given = typeof input === 'function' ? input(outputs.at(-1)) : input;
      const call = { type: 'tool-call', toolCallId: 'call-' + outputs.length, toolName, input: JSON.stringify(given) } as const;
      return { content: [call], finishReason: { unified: 'tool-calls', raw: 'tool_calls' }, usage, warnings: [] };
    },
  });
  const { text, steps: done } = await generateText({
    model,
    tools: sandboxTools(sandbox),
    prompt: 'Work in the sandbox',
    stopWhen: stepCountIs(steps.length + 1),
    onStepEnd: ({ content }: any) => {
      for (const part of content) {
        if (part.type === 'tool-result') outputs.push(part.output);
        if (part.type === 'tool-error') outputs.push({ failure: part.error });
      }
    },
    ...more,
  });
  assert.equal(text, 'finished');
  assert.equal(done.length, steps.length + 1);
  return { outputs, lastPrompt: model.doGenerateCalls.at(-1)!.prompt };
}
`;

const work = `${start}
await using sandbox = await Sandbox.create();
const { outputs } = await agent(sandbox, [
  ['write_file', { path: '/srv/add.py', text: 'print(2 + x)' }],
  ['run_command', { command: 'python3 add.py', cwd: '/srv' }],
  ['read_file', { path: '/srv/add.py' }],
  ['write_file', { path: '/srv/add.py', text: 'import sys; print(2 + int(sys.stdin.read()))' }],
  ['run_command', { command: 'python3 add.py', cwd: '/srv', stdin: '40' }],
  ['list_files', { path: '/srv' }],
  ['run_command', { command: 'sleep 600', timeout_seconds: 1 }],
  ['read_file', { path: '/nowhere' }],
  ['run_command', { command: 'yes | head -c 100000' }],
  ['run_command', { command: 'no\\\\such', timeout_seconds: 0 }],
]);
assert.deepEqual(outputs[1], { exit_code: 1, stdout: '', stderr: outputs[1].stderr, truncated: false });
assert.match(outputs[1].stderr, /NameError/);
assert.deepEqual(outputs[2], { text: 'print(2 + x)', truncated: false });
assert.deepEqual(outputs[4], { exit_code: 0, stdout: '42\\n', stderr: '', truncated: false });
assert.deepEqual(outputs[5], { entries: [{ name: 'add.py', type: 'file', size: 44 }], truncated: false });
assert.equal(outputs[6].failure.code, 'timed_out');
assert.equal(outputs[7].failure.code, 'not_found');
assert.deepEqual([outputs[8].stdout.length, outputs[8].truncated], [30_000, true]);
assert.match(String(outputs[9].failure), /timeout_seconds/);
console.log('done');
`;

const background = `${start}
await using sandbox = await Sandbox.create();
let pid = 0;
const { outputs } = await agent(sandbox, [
  ['run_command', { command: 'echo serving; exec python3 -m http.server 8000', background: true }],
  ['open_port', { port: 8000 }],
  ['run_command', { command: 'curl -s -o /dev/null http://127.0.0.1:8000/asked' }],
  ['read_output', { pid: 'PID', wait_seconds: 1 }],
  ['kill_process', { pid: 'PID' }],
  ['read_output', { pid: 'PID', wait_seconds: 10 }],
  ['run_code', { code: 'let x = 41; console.log("from code")', language: 'javascript' }],
  ['run_code', { code: 'x + 1', language: 'javascript' }],
  ['run_code', { code: 'nothing', language: 'javascript' }],
].map(([name, input]: any) => [name, (before: any) => {
  pid ||= before?.pid ?? 0;
  return input.pid === 'PID' ? { ...input, pid } : input;
}] as Step));
assert.deepEqual([outputs[0].is_running, outputs[0].exit_code], [true, null]);
assert.match(outputs[0].stdout, /^serving\\n/);
assert.equal((await fetch(outputs[1].url)).status === 401, false);
assert.match(outputs[3].stderr, /GET \\/asked/);
assert.equal(outputs[3].is_running, true);
assert.deepEqual(outputs[4], { was_running: true });
assert.deepEqual([outputs[5].is_running, outputs[5].exit_code], [false, 137]);
assert.match(outputs[6].stdout, /from code/);
assert.equal(outputs[7].text, '42');
assert.equal(outputs[8].error.name, 'ReferenceError');
console.log('done');
`;

const session = `${start}
await using sandbox = await Sandbox.create();
const box = sandboxSession(sandbox);
const text = (stream: ReadableStream<Uint8Array>) => new Response(stream as any).text();

// A tool of the program reaches the sandbox that the call names.
const shell = tool({
  inputSchema: z.object({ command: z.string() }),
  execute: ({ command }, { experimental_sandbox }) => experimental_sandbox!.run({ command, env: { NAME: 'ada' } }),
});
const { outputs } = await agent(sandbox, [['shell', { command: 'echo $NAME; pwd; exit 3' }]], { tools: { shell }, experimental_sandbox: box });
const home = (await sandbox.files.stat('~')).path;
assert.deepEqual(outputs[0], { exitCode: 3, stdout: 'ada\\n' + home + '\\n', stderr: '' });
assert.ok(box.description.includes(sandbox.domain));

await box.writeTextFile({ path: 'a/lines.txt', content: 'one\\ntwo\\nthree\\n' });
assert.equal((await box.run({ command: 'cat lines.txt', workingDirectory: 'a' })).stdout, 'one\\ntwo\\nthree\\n');
assert.equal(await box.readTextFile({ path: 'a/lines.txt', startLine: 2, endLine: 3 }), 'two\\nthree');
assert.equal(await box.readTextFile({ path: 'a/lines.txt', startLine: 3, endLine: 30 }), 'three\\n');
await box.writeTextFile({ path: '/tmp/latin', content: 'ä', encoding: 'latin1' });
assert.deepEqual([...(await box.readBinaryFile({ path: '/tmp/latin' }))!], [0xe4]);
assert.equal(await box.readTextFile({ path: '/tmp/latin', encoding: 'latin1' }), 'ä');
await box.writeFile({ path: '/tmp/stream', content: ReadableStream.from([new Uint8Array([104]), new Uint8Array([105])]) });
assert.equal(await text((await box.readFile({ path: '/tmp/stream' }))!), 'hi');
await box.writeBinaryFile({ path: '/tmp/none', content: new Uint8Array() });
assert.equal(await text((await box.readFile({ path: '/tmp/none' }))!), '');
for (const read of [box.readFile, box.readBinaryFile, box.readTextFile, box.stat, box.listDirectory])
  assert.equal(await read({ path: '/nowhere' }), null);
await assert.rejects(async () => box.writeTextFile({ path: '/tmp', content: '' }));

await box.run({ command: 'ln -s a/lines.txt link; ln -s a folder; ln -s nowhere dangling; mkfifo pipe' });
assert.deepEqual(await box.stat({ path: 'link' }), { type: 'file', size: 14 });
assert.equal((await box.stat({ path: 'folder' }))!.type, 'directory');
assert.equal(await box.stat({ path: 'dangling' }), null);
const types = Object.fromEntries((await box.listDirectory({ path: '.' }))!.map(({ name, type }) => [name, type]));
assert.deepEqual([types.a, types.link, types.folder, types.dangling, types.pipe], ['directory', 'symlink', 'symlink', 'symlink', 'other']);
await assert.rejects(async () => box.listDirectory({ path: 'a/lines.txt' }));
assert.equal(await box.deleteFile({ path: 'folder' }), true);
await assert.rejects(async () => box.deleteFile({ path: 'a' }), /is a directory/);
assert.deepEqual([await box.deleteFile({ path: 'a/lines.txt' }), await box.deleteFile({ path: 'a/lines.txt' })], [true, false]);

const sort = await box.spawn({ command: 'sort; echo sorted >&2; exit 4', stdin: true });
const input = sort.stdin.getWriter();
await input.write(new TextEncoder().encode('b\\na\\n'));
await input.close();
assert.deepEqual([await text(sort.stdout), await text(sort.stderr), await sort.wait()], ['a\\nb\\n', 'sorted\\n', { exitCode: 4 }]);

const unread = await box.spawn({ command: 'cat; head -c 20000000 /dev/zero; echo end >&2' });
assert.equal('stdin' in unread, false);
await unread.stdout.cancel();
assert.deepEqual([await text(unread.stderr), await unread.wait()], ['end\\n', { exitCode: 0 }]);
const slow = await box.spawn({ command: 'head -c 20000000 /dev/zero' });
let bytes = 0;
for await (const piece of slow.stdout) bytes += piece.length;
assert.equal(bytes, 20_000_000);

const sleeping = await box.spawn({ command: 'sleep 600' });
await sleeping.kill();
await sleeping.kill();
assert.equal((await sleeping.wait()).exitCode, 137);
const abort = new AbortController();
const aborted = await box.spawn({ command: 'sleep 600', abortSignal: abort.signal });
abort.abort(new Error('enough'));
await assert.rejects(async () => aborted.wait(), /enough/);
await assert.rejects(async () => box.run({ command: 'true', abortSignal: abort.signal }), /enough/);
await assert.rejects(async () => box.readTextFile({ path: '/etc/hostname', abortSignal: abort.signal }), /enough/);
console.log('done');
`;

const plot = `${start}
await using sandbox = await Sandbox.create({ template: 'code-interpreter' });
const code = 'import matplotlib.pyplot as plt; plt.plot([1, 2, 4]); plt.show(); 6 * 7';
const { lastPrompt } = await agent(sandbox, [['run_code', { code }]]);
const [part] = (lastPrompt as any[]).at(-1).content;
assert.equal(JSON.parse(part.output.value[0].text).text, '42');
assert.deepEqual([part.output.value[1].type, part.output.value[1].mediaType], ['file', 'image/png']);
console.log('done');
`;

const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };
const usage = { inputTokens: tokens, outputTokens: tokens };
const command = 'echo $((20 + 22))';
/** What a model replies to the program of the README. */
const replies = [
  {
    content: [{ type: 'tool-call', toolCallId: 'first', toolName: 'run_command', input: JSON.stringify({ command }) }],
    finishReason: { unified: 'tool-calls', raw: 'tool_calls' },
    ...{ usage, warnings: [] },
  },
  {
    content: [{ type: 'text', text: 'The sum is 42.' }],
    finishReason: { unified: 'stop', raw: 'stop' },
    ...{ usage, warnings: [] },
  },
];

test('an agent of the AI SDK works with commands, background commands, code, files and ports of a sandbox', async () => {
  expect(await project.run([work, background, plot], { ...platform.env })).toEqual(['done\n', 'done\n', 'done\n']);
}, 120_000);

test('the session is what the AI SDK asks of a sandbox', async () => {
  expect(await project.run([session], { ...platform.env })).toEqual(['done\n']);
}, 120_000);

test('the program of the README runs with the mock as its model', async () => {
  const [program, ...more] = readPrograms('clients/integrations/ai-sdk/README.md', 'ts');
  expect(more).toEqual([]);
  const model = `const model = new (await import('ai/test')).MockLanguageModelV4({ doGenerate: ${JSON.stringify(replies)} as any });`;
  const source = program!.source.replace(/^const model = .*$/m, () => model);
  expect(source).not.toBe(program!.source);
  const [printed] = await project.run([source], { ...platform.env });
  expect(printed).toBe('run_command\nThe sum is 42.\n');
}, 120_000);
