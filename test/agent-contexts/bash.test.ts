import fs from 'node:fs';
import path from 'node:path';
import { until } from '../support/until.ts';
import { isAlive, outline, record, TestContexts } from './support/contexts.ts';

let bash: TestContexts;
let contextId: string;

beforeAll(async () => {
  bash = new TestContexts();
  contextId = await bash.create('bash');
});
afterAll(() => bash?.close());

const run = (code: string, envVars: Record<string, string> = {}) => bash.run({ contextId, code, envVars });

test('each line is an event, and many waiting lines are joined', async () => {
  const { events } = await run('echo 1; echo 2; echo 3; printf 4');
  const lines = events.flatMap((event) => (event.type === 'stdout' ? [event.content] : []));
  expect(lines).toEqual(['1\n', '2\n', '3\n', '4']);
  const many = await run('seq 100000');
  expect(many.stdout.length).toBe(588_895);
  expect(many.events.length).toBeLessThan(20_000);
});

test('variables, functions, options, aliases and the working folder are kept', async () => {
  await run('x=5; export y=6; f() { echo "f $x"; }; cd /usr; shopt -s expand_aliases; alias greet="echo hello"');
  expect((await run('f; printenv y; pwd; greet')).stdout).toBe('f 5\n6\n/usr\nhello\n');
});

test('the result has the exit code, and bash’s messages name the line of the code', async () => {
  const { main, stderr } = await run('true\nno-such-command');
  expect(main).toMatchObject({ exitCode: 127, isMainResult: true });
  expect(stderr).toBe('bash: line 2: no-such-command: command not found\n');
  expect((await run('false')).main!.exitCode).toBe(1);
  expect((await run('if true; then')).main!.exitCode).toBe(2);
  expect((await run('')).main!.exitCode).toBe(0);
});

test('an execution that exits passes its state to the next', async () => {
  const fresh = await bash.create('bash');
  const there = (code: string) => bash.run({ contextId: fresh, code });
  const left = await there(
    'declare -A map=([a]=1); list=(1 "2 3"); readonly R=7; export E="é\'"; f() { echo "f $1"; }; cd /tmp; exit 3',
  );
  expect(left.main!.exitCode).toBe(3);
  expect((await there('f "${map[a]} ${list[1]} $R"; printenv E; pwd')).stdout).toBe("f 1 2 3 7\né'\n/tmp\n");
  expect((await there('set -euo pipefail; x=1; false; echo not reached')).main!.exitCode).toBe(1);
  expect(outline(await there('echo "$x $-"'))).toEqual([expect.stringMatching(/^out 1 .*e.*u.*\n$/), 'result']);
  expect((await there('exec true')).main!.exitCode).toBe(0);
  expect((await there('echo on')).stdout).toBe('on\n');
});

test('output arrives while the code runs, and completely before the end', async () => {
  const go = path.join(bash.home, 'go');
  const seen: string[] = [];
  const code = `echo waiting; until [[ -e ${go} ]]; do sleep 0.01; done; seq 20000; echo err >&2; echo tee | tee /dev/stderr >/dev/stdout`;
  let stderr = '';
  for await (const event of bash.stream({ contextId, code })) {
    if (event.type === 'stdout') seen.push(event.content);
    if (event.type === 'stderr') stderr += event.content;
    fs.writeFileSync(go, '');
  }
  expect(seen[0]).toBe('waiting\n');
  expect(seen.join('').split('\n')).toHaveLength(20003);
  expect(stderr).toBe('err\ntee\n');
});

test('variables of one execution are removed after it, regardless of earlier values and its end', async () => {
  expect((await run('printenv ONE', { ONE: `it's "é"\n` })).stdout).toBe(`it's "é"\n\n`);
  expect((await run('echo "${ONE-unset}"')).stdout).toBe('unset\n');
  await run('TWO=before');
  await run('TWO=changed; exit 1', { TWO: 'during' });
  expect((await run('echo "$TWO"')).stdout).toBe('before\n');
});

test('code with any content arrives completely', async () => {
  const text = `é'"\\$\`\t${'x'.repeat(100_000)}`;
  expect((await run(`cat <<'END'\n${text}\nEND`)).stdout).toBe(`${text}\n`);
  expect((await run('echo a\0b')).stdout).toBe('ab\n');
});

test('jobs continue in the background and do not delay the execution', async () => {
  const { stdout } = await run('sleep 1000 & echo $!');
  const pid = Number(stdout);
  expect((await run('jobs -p')).stdout).toBe(stdout);
  await run('exit 0');
  expect(isAlive(pid)).toBe(true);
  await run(`kill ${pid}`);
});

test('code cannot reach the pipes that carry its requests', async () => {
  const { stdout } = await run(
    '{ echo "done 9" >&3; } 2>/dev/null; read -t 0 -u 4 2>/dev/null; echo $?; ls /proc/self/fd | head -3 | xargs',
  );
  expect(stdout).toBe('1\n0 1 2\n');
});

test.each([
  ['a command', 'sleep 1000'],
  ['a loop', 'while :; do :; done'],
  ['a loop of commands', 'while :; do sleep 0.01; done'],
  ['a pipeline with endless output', 'yes | cat'],
])('a client that leaves interrupts %s, and the state stays', async (_what, code) => {
  await run('kept=1; f() { echo "f $kept"; }');
  for await (const event of bash.stream({ contextId, code: `echo started\n${code}` })) {
    if (event.type === 'stdout') break;
  }
  expect((await run('f')).stdout).toBe('f 1\n');
});

test('a client that disconnects at once interrupts the execution, too, and the next execution is separate', async () => {
  for (let turn = 0; turn < 10; turn++) {
    const abort = new AbortController();
    const next = bash.stream({ contextId, code: 'sleep 1000' }, abort.signal).next();
    setTimeout(() => abort.abort(), turn);
    expect((await next).done).toBe(true);
    expect((await run(`echo ${turn}`)).stdout).toBe(`${turn}\n`);
  }
});

test('a killed shell is reported, and a command that ignores interrupts ends its shell', async () => {
  const killed = await bash.create('bash');
  expect((await bash.run({ contextId: killed, code: 'echo last; kill -9 $$' })).events).toMatchObject([
    { type: 'stdout', content: 'last\n' },
    { type: 'error', error: { name: 'KernelDied', value: expect.stringContaining('killed by SIGKILL') } },
  ]);
  await bash.contexts.destroy(killed);

  const impatient = new TestContexts({}, { interruptGraceMs: 300 });
  try {
    const stubborn = await impatient.create('bash');
    const code = `trap '' INT; echo started; sleep 1000`;
    for await (const event of impatient.stream({ contextId: stubborn, code })) if (event.type === 'stdout') break;
    expect((await impatient.run({ contextId: stubborn, code: 'echo on' })).error!.name).toBe('KernelDied');
  } finally {
    await impatient.close();
  }
});

test('a slow reader slows the writing code down, and loses nothing', async () => {
  const progress = path.join(bash.home, 'progress');
  const code = `for turn in {1..500}; do printf '%065536d' 0; echo $turn >${progress}; done`;
  const stream = bash.stream({ contextId, code });
  const first = await stream.next();
  let before = '';
  await until(async () => {
    const now = fs.existsSync(progress) ? fs.readFileSync(progress, 'utf8') : '';
    if (now !== '' && now === before) return true;
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 200));
    return false;
  });
  expect(Number(before)).toBeLessThan(125);
  const rest = await record(stream);
  const firstLength = first.value?.type === 'stdout' ? first.value.content.length : 0;
  expect(firstLength + rest.stdout.length).toBe(500 * 65536);
});
