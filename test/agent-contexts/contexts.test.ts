import fs from 'node:fs';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { until } from '../support/until.ts';
import { isAlive, TestContexts } from './support/contexts.ts';

let contexts: TestContexts;

beforeEach(() => {
  contexts = new TestContexts();
});
afterEach(() => contexts.close());

test('a context has its id, the language as requested, its directory and its creation time', async () => {
  const folder = path.join(contexts.home, 'work');
  fs.mkdirSync(folder);
  const signal = new AbortController().signal;
  const info = await contexts.contexts.create({ language: 'NodeJS', cwd: 'work' }, signal);
  expect(info).toEqual({
    id: expect.stringMatching(/^ctx-[0-9a-f-]{36}$/),
    language: 'NodeJS',
    cwd: folder,
    createdAt: expect.any(Date),
    envVars: {},
  });
  expect(Math.abs(info.createdAt.getTime() - Date.now())).toBeLessThan(60_000);
  expect((await contexts.run({ contextId: info.id, code: 'process.cwd()' })).main!.text).toBe(`'${folder}'`);
});

test('contexts of one language are separate', async () => {
  const [one, two] = [await contexts.create('bash'), await contexts.create('bash')];
  await contexts.run({ contextId: one, code: 'x=1; cd /' });
  const { stdout } = await contexts.run({ contextId: two, code: 'echo "${x-unset} $PWD"' });
  expect(stdout).toBe(`unset ${contexts.home}\n`);
});

test('an empty context id is the default context of the language, the same for all of its names', async () => {
  await contexts.run({ language: 'node', code: 'globalThis.seen = 1' });
  expect((await contexts.run({ language: 'javascript', code: 'seen' })).main!.text).toBe('1');
  expect((await contexts.run({ language: 'typescript', code: 'typeof seen' })).main!.text).toBe("'undefined'");
});

test('two first concurrent executions share the default context', async () => {
  const ran = await Promise.all([1, 2, 3].map(() => contexts.run({ language: 'bash', code: 'echo $PPID' })));
  expect(new Set(ran.map(({ stdout }) => stdout)).size).toBe(1);
});

test('executions of one context are sequential, in the order of their requests', async () => {
  const contextId = await contexts.create('bash');
  const log = path.join(contexts.home, 'log');
  const code = (name: string) => `echo "${name} begins" >>${log}; sleep 0.05; echo "${name} ends" >>${log}`;
  await Promise.all(['a', 'b', 'c'].map((name) => contexts.run({ contextId, code: code(name) })));
  const lines = ['a', 'b', 'c'].flatMap((name) => [`${name} begins`, `${name} ends`]);
  expect(fs.readFileSync(log, 'utf8').trim().split('\n')).toEqual(lines);
});

test('a waiting execution whose client disconnects never begins', async () => {
  const contextId = await contexts.create('bash');
  const mark = path.join(contexts.home, 'mark');
  const go = path.join(contexts.home, 'go');
  const first = contexts.run({ contextId, code: `until [[ -e ${go} ]]; do sleep 0.01; done; echo first` });
  const abort = new AbortController();
  const second = contexts.stream({ contextId, code: `touch ${mark}` }, abort.signal).next();
  abort.abort();
  expect((await second).done).toBe(true);
  fs.writeFileSync(go, '');
  expect((await first).stdout).toBe('first\n');
  expect((await contexts.run({ contextId, code: 'echo third' })).stdout).toBe('third\n');
  expect(fs.existsSync(mark)).toBe(false);
});

test('destroying a context ends all of its processes, and the execution in progress reports it', async () => {
  const contextId = await contexts.create('bash');
  const stream = contexts.stream({ contextId, code: 'sleep 1000 & echo $! $$; wait' });
  const first = await stream.next();
  if (first.value?.type !== 'stdout') throw new Error('expected output');
  const pids = first.value.content.split(' ').map(Number);
  await contexts.contexts.destroy(contextId);
  expect((await stream.next()).value).toMatchObject({ type: 'error', error: { name: 'ContextDestroyed' } });
  await until(() => !pids.some(isAlive));
  await expect(contexts.run({ contextId, code: 'echo' })).rejects.toMatchObject({ code: Code.NotFound });
});

test('an unknown context is not found', async () => {
  const notFound = { code: Code.NotFound, rawMessage: expect.stringContaining('not found') };
  await expect(contexts.run({ contextId: 'ctx-unknown', code: '1' })).rejects.toMatchObject(notFound);
  await expect(contexts.contexts.destroy('ctx-unknown')).rejects.toMatchObject(notFound);
});

test("an unknown language, and one that is not the context's, are invalid arguments", async () => {
  const invalid = { code: Code.InvalidArgument };
  await expect(contexts.create('cobol')).rejects.toMatchObject(invalid);
  await expect(contexts.create('constructor')).rejects.toMatchObject(invalid);
  await expect(contexts.run({ language: 'cobol', code: '1' })).rejects.toMatchObject(invalid);
  const contextId = await contexts.create('bash');
  await expect(contexts.run({ contextId, language: 'node', code: '1' })).rejects.toMatchObject(invalid);
  expect((await contexts.run({ contextId, language: 'BASH', code: 'echo ok' })).stdout).toBe('ok\n');
});

test('a working folder that is missing is made with its parents', async () => {
  const folder = path.join(contexts.home, 'new/deep');
  const contextId = await contexts.create('bash', folder);
  expect((await contexts.run({ contextId, code: 'pwd' })).stdout).toBe(`${folder}\n`);
});

test('a context without a folder uses the default one if it exists, and otherwise the home directory', async () => {
  const defaultFolder = path.join(contexts.home, 'workspace');
  const other = new TestContexts({}, { defaultFolder });
  try {
    expect((await other.run({ language: 'bash', code: 'pwd' })).stdout).toBe(`${other.home}\n`);
    fs.mkdirSync(defaultFolder);
    const contextId = await other.create('bash');
    expect((await other.run({ contextId, code: 'pwd' })).stdout).toBe(`${defaultFolder}\n`);
  } finally {
    await other.close();
  }
});

test('an impossible working folder is an invalid argument with the reason', async () => {
  await expect(contexts.create('bash', '/proc/no/such')).rejects.toMatchObject({
    code: Code.InvalidArgument,
    rawMessage: expect.stringMatching(/^cwd \/proc\/no\/such: .*no such file or directory$/),
  });
  await expect(contexts.create('bash', 'nul\0')).rejects.toMatchObject({ code: Code.InvalidArgument });
  await expect(contexts.create('bash', '/etc/passwd')).rejects.toMatchObject({
    code: Code.InvalidArgument,
    rawMessage: 'cwd /etc/passwd: not a directory',
  });
});

test('variables that no process can have are invalid arguments', async () => {
  for (const envVars of [{ 'A=B': '1' }, { A: 'nul\0' }, { '': '1' }, { 'not-a-name': '1' }] as Record<
    string,
    string
  >[]) {
    await expect(contexts.run({ language: 'bash', code: '', envVars })).rejects.toMatchObject({
      code: Code.InvalidArgument,
    });
  }
});

test('languages that are not installed are failed preconditions that name the packages to install', async () => {
  const bare = new TestContexts({ PATH: '/no/such/folder' });
  try {
    const missing = { PATH: '/no/such/folder', HOME: bare.home };
    const environment = { variables: () => missing, home: () => bare.home, searchPath: () => missing.PATH };
    const { Contexts } = await import('../../agent/contexts/contexts.ts');
    const without = new Contexts({ environment, scripts: '/no/such/folder' });
    const wants = { python: /ipykernel/, bash: /package bash/, r: /r-cran-irkernel/, java: /JDK.*JJava/ };
    for (const [language, message] of Object.entries(wants)) {
      await expect(without.create({ language, cwd: '' }, new AbortController().signal)).rejects.toMatchObject({
        code: Code.FailedPrecondition,
        rawMessage: expect.stringMatching(message),
      });
    }
  } finally {
    await bare.close();
  }
});

test('closing leaves no process and no file behind', async () => {
  const { stdout } = await contexts.run({ language: 'bash', code: 'echo $$; readlink /proc/self/fd/1' });
  const [pid, pipe] = stdout.trim().split('\n');
  expect(fs.existsSync(pipe!)).toBe(true);
  await contexts.contexts.close();
  await until(() => !isAlive(Number(pid)));
  expect(fs.existsSync(path.dirname(pipe!))).toBe(false);
});
