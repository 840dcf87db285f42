import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { until } from '../support/until.ts';
import { isAlive, outline, record, TestContexts } from './support/contexts.ts';
import { makingMs, realPython } from './support/real-kernels.ts';

let python: TestContexts;
let contextId: string;

beforeAll(async () => {
  python = new TestContexts({ PATH: await realPython() });
  contextId = await python.create('python');
}, makingMs);
afterAll(() => python?.close());

const run = (code: string, envVars: Record<string, string> = {}) => python.run({ contextId, code, envVars });
const table = (of: string) => {
  const code = `import numpy, pandas\nfrom decimal import Decimal\nfrom fractions import Fraction\npandas.DataFrame(${of})`;
  return python.run({ contextId, code, wantsData: true });
};
const elsewhere = (name: string) => path.join(python.home, name);

describe('results', () => {
  test('the last expression is the main result, and state lasts until the next execution', async () => {
    await run('numbers = [1, 2, 3]');
    const { main } = await run('sum(numbers)');
    expect(main).toMatchObject({ text: '6', exitCode: 0, isMainResult: true });
    const next = await run('len(numbers)');
    expect(next.main!.executionCount).toBe(main!.executionCount + 1);
    expect(main!.finishedAt.getTime()).toBeGreaterThanOrEqual(main!.startedAt.getTime());
  });

  test('code that only prints, and code that does nothing, end with a main result too', async () => {
    expect(outline(await run('print("only this")'))).toEqual(['out only this\n', 'result']);
    expect(outline(await run(''))).toEqual(['result']);
  });

  test('await works at top level', async () => {
    const { main } = await run('import asyncio\nawait asyncio.sleep(0.01)\n"awaited"');
    expect(main!.text).toBe("'awaited'");
  });

  test('every format of a value has its field, and the others go to extra', async () => {
    const { displays, main } = await run(`
import base64
from IPython.display import *
pixel = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")
for shown in (HTML("<b>b</b>"), Markdown("*m*"), SVG("<svg/>"), Latex("$x$"), JSON({"a": [1]}), Javascript("f()"), Image(pixel)):
    display(shown)
display({"application/pdf": base64.b64encode(b"%PDF").decode(), "image/jpeg": "/9j/", "text/plain": "t", "text/x-own": "o"}, raw=True)
Markdown("# main")`);
    const fields = displays.map(
      ({ startedAt, finishedAt, exitCode, executionCount, isMainResult, text, ...rest }) => rest,
    );
    expect(fields).toEqual([
      { html: '<b>b</b>' },
      { markdown: '*m*' },
      { svg: '<svg/>' },
      { latex: '$x$' },
      { json: '{"a":[1]}' },
      { javascript: 'f()' },
      { png: expect.stringMatching(/^iVBORw0KGgo[\w+/=]+$/) },
      { pdf: 'JVBERg==', jpeg: '/9j/', extra: { 'text/x-own': 'o' } },
    ]);
    expect(displays.every(({ isMainResult }) => !isMainResult)).toBe(true);
    expect(main).toMatchObject({ markdown: '# main', isMainResult: true });
  });

  test('a table is text, HTML and data', async () => {
    const { main } = await table('{"n": [1, 2], "t": ["x", None], "d": pandas.to_datetime(["2026-01-02", None])}');
    expect(main!.html).toContain('<table');
    expect(main!.text).toContain('2026-01-02');
    expect(JSON.parse(main!.data!)).toEqual({
      n: [1, 2],
      t: ['x', null],
      d: [expect.stringContaining('2026-01-02'), null],
    });
  });

  test('data of a table keeps every digit and every value', async () => {
    const { main } = await table(`{
      "i": [2**53 + 1, -2**63], "f": [1e-12, 0.1 + 0.2], "big": [10**30, None], "inf": [float("inf"), float("nan")],
      "b": [b"\\x00a", b""], "m": [Decimal("1.10"), Fraction(1, 3)], "n": [{"k": [2**53 + 1]}, True],
      "z": pandas.array([2**53 + 1, None], dtype="Int64"), "t": pandas.to_timedelta([1, 2], unit="ns"),
    }`);
    expect(main!.extra).toBeUndefined();
    expect(main!.data).toBe(
      '{"i": [9007199254740993, -9223372036854775808], "f": [1e-12, 0.30000000000000004], ' +
        '"big": [1000000000000000000000000000000, null], "inf": ["Infinity", null], ' +
        String.raw`"b": ["b'\\x00a'", "b''"], "m": [1.10, "1/3"], "n": [{"k": [9007199254740993]}, true], ` +
        '"z": [9007199254740993, null], "t": ["P0DT0H0M0.000000001S", "P0DT0H0M0.000000002S"]}',
    );
  });

  test('a table has no data but a reason if columns would merge, or it is too large', async () => {
    for (const [code, reason] of [
      ['[[1, 2]], columns=["a", "a"]', 'columns have the same name: a'],
      ['[[1, 2]], columns=[1, "1"]', 'columns have the same name: 1'],
      ['numpy.zeros((1001, 100))', 'the table has more than 100000 cells'],
    ] as const) {
      const { main } = await table(code);
      expect(main!.html).toContain('<table');
      expect([main!.data, main!.extra]).toEqual([undefined, { data_missing: `ValueError: ${reason}` }]);
    }
  });

  test('json and extra keep every digit', async () => {
    const value = '{"i": [9007199254740993, 1e-12, 1.0, 123456789012345678901234567890]}';
    const { main, displays } = await run(`
import json
from IPython.display import JSON
value = json.loads('${value}')
display({"application/x-own+json": value, "text/plain": "t"}, raw=True)
JSON(value)`);
    const exact = value.replaceAll(' ', '');
    expect(main!.json).toBe(exact);
    expect(displays[0]!.extra).toEqual({ 'application/x-own+json': exact });
  });
});

test('a context starts when the pipe memory of its user is used up', async () => {
  // A user of its own, because the kernel counts pipes by user. It may read the files of root, as a sandbox's root may.
  const user =
    'setpriv --reuid=54321 --inh-caps=-all,+dac_override --ambient-caps=-all,+dac_override --bounding-set=-all,+dac_override';
  const bin = elsewhere('limited-bin');
  fs.mkdirSync(bin);
  fs.writeFileSync(`${bin}/python3`, `#!/bin/sh\nexec ${user} ${await realPython()}/python3 "$@"\n`, { mode: 0o755 });
  const fill = `
import fcntl, os, sys
try:
    while True: fcntl.fcntl(os.pipe()[1], 1031, 1024 * 1024)
except PermissionError:
    print("full", flush=True)
sys.stdin.read()`;
  const filler = spawn('/bin/sh', ['-c', `exec ${user} python3 -c '${fill}'`], { stdio: ['pipe', 'pipe', 'inherit'] });
  const limited = new TestContexts({ PATH: bin });
  try {
    const [full] = await once(filler.stdout, 'data');
    expect(String(full)).toContain('full');
    const id = await limited.create('python');
    const { stdout, main } = await limited.run({
      contextId: id,
      code: 'import os\nos.system("seq 20000 | tail -1")\nprint(os.getuid())',
    });
    expect([stdout, main?.exitCode]).toEqual(['20000\n54321\n', 0]);
  } finally {
    filler.kill('SIGKILL');
    await limited.close();
  }
});

describe('output', () => {
  test('arrives while the code runs', async () => {
    const go = elsewhere('go');
    const code = `import os, time\nprint("waiting")\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)\nprint("went")`;
    const seen: string[] = [];
    for await (const event of python.stream({ contextId, code })) {
      if (event.type !== 'stdout') continue;
      seen.push(event.content);
      fs.writeFileSync(go, '');
    }
    // A line may arrive in two pieces.
    expect(seen.join('')).toBe('waiting\nwent\n');
  });

  test('of print, subprocesses, both streams and displays arrives in the order of writing', async () => {
    const ran = await run(`
import os, subprocess, sys
from IPython.display import display
for turn in (1, 2):
    print("a")
    print("b", file=sys.stderr)
    os.system("echo c; echo d")
    print("e")
    subprocess.run("echo f >&2", shell=True)
    display("g")
    sys.stdout.buffer.write("é\\n".encode())`);
    const turn = ['out a\n', 'err b\n', 'out c\nd\ne\n', 'err f\n', 'result'];
    expect(outline(ran)).toEqual([...turn, `out é\n${'a\n'}`, ...turn.slice(1), 'out é\n', 'result']);
  });

  test('of subprocesses, also of forked ones, arrives before the end of the execution', async () => {
    const ran = await run(`
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=lambda: print("from a fork"))
child.start(); child.join()
os.system("echo to /dev/stdout > /dev/stdout")
os.system("seq 1000 | tail -1")`);
    expect(ran.stdout).toBe('from a fork\nto /dev/stdout\n1000\n');
  });

  test('a slow reader slows the writing code down, and loses nothing', async () => {
    const progress = elsewhere('progress');
    const rounds = 1000;
    const code = `
for turn in range(${rounds}):
    print("x" * 65535)
    with open(${JSON.stringify(progress)}, "w") as file: file.write(str(turn))`;
    const stream = python.stream({ contextId, code });
    let bytes = 0;
    const first = await stream.next();
    if (first.value?.type === 'stdout') bytes += first.value.content.length;
    // Without a reader the writer blocks.
    let before = '';
    await until(async () => {
      const now = fs.existsSync(progress) ? fs.readFileSync(progress, 'utf8') : '';
      if (now !== '' && now === before) return true;
      before = now;
      await new Promise((resolve) => setTimeout(resolve, 300));
      return false;
    });
    expect(Number(before)).toBeLessThan(rounds / 4);
    const rest = await record(stream);
    expect(bytes + rest.stdout.length).toBe(rounds * 65536);
  });
});

describe('errors', () => {
  test('have a name, a value and a traceback in plain text, and the context survives', async () => {
    const { error, stdout } = await run('def divide(a): return a / 0\nprint("before")\ndivide(1)');
    expect(stdout).toBe('before\n');
    expect(error).toMatchObject({ name: 'ZeroDivisionError', value: 'division by zero' });
    expect(error!.traceback).toContain('divide(1)');
    expect(error!.traceback).not.toContain('\u001b');
    expect((await run('1 + 1')).main!.text).toBe('2');
  });

  test('of syntax are errors, and exit() ends the execution but not the context', async () => {
    expect((await run('1 +')).error).toMatchObject({ name: 'SyntaxError' });
    await run('kept = 1');
    const left = await run('exit(3)\nkept = 2');
    expect(left.error).toMatchObject({ name: 'SystemExit', value: '3' });
    expect(left.stderr).toBe('');
    expect((await run('kept')).main!.text).toBe('1');
  });

  test('input() fails instead of waiting', async () => {
    expect((await run('input("name? ")')).error!.name).toBe('StdinNotImplementedError');
  });
});

describe('variables of one execution', () => {
  test('are visible to it and its subprocesses, and removed after it', async () => {
    const code =
      'import os, subprocess\nos.environ.get("ONE"), subprocess.check_output("printf %s \\"$ONE\\"", shell=True)';
    expect((await run(code, { ONE: 'é "1"' })).main!.text).toBe(`('é "1"', b'\\xc3\\xa9 "1"')`);
    expect((await run('os.environ.get("ONE")')).main!.text).toBeUndefined();
    await run('raise ValueError', { ONE: '1' });
    expect((await run('"ONE" in os.environ')).main!.text).toBe('False');
  });
});

describe('a client that leaves', () => {
  /** Runs code until it prints, and then closes its connection, as a client may do. */
  async function leaveOnceItPrints(code: string): Promise<void> {
    for await (const event of python.stream({ contextId, code })) if (event.type === 'stdout') return;
    throw new Error('it ended before it printed');
  }

  test.each([
    ['a busy loop', 'while True: pass'],
    ['a wait', 'import time; time.sleep(1000)'],
    ['a subprocess', 'import subprocess; subprocess.run(["sleep", "1000"])'],
    ['an await', 'import asyncio; await asyncio.sleep(1000)'],
    ['endless output', 'while True: print("x" * 1000)'],
  ])('interrupts %s, and the state stays', async (_what, code) => {
    await run('kept = 1');
    await leaveOnceItPrints(`print("started", flush=True)\n${code}`);
    expect((await run('kept')).main!.text).toBe('1');
  });

  test('does not delay the next execution', async () => {
    const abort = new AbortController();
    const first = python.stream({ contextId, code: 'print("on")\nimport time; time.sleep(1000)' }, abort.signal);
    await first.next();
    const second = run('"second"');
    abort.abort();
    expect((await second).main!.text).toBe("'second'");
    expect((await first.next()).done).toBe(true);
  });

  test('ends the kernel of code that ignores the interrupt, and the next request gets an error', async () => {
    const impatient = new TestContexts({ PATH: await realPython() }, { interruptGraceMs: 300 });
    try {
      const stubborn = await impatient.create('python');
      const code = `
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(os.getpid(), flush=True)
while True: pass`;
      let pid = 0;
      for await (const event of impatient.stream({ contextId: stubborn, code })) {
        if (event.type === 'stdout') {
          pid = Number(event.content);
          break;
        }
      }
      const { error } = await impatient.run({ contextId: stubborn, code: '1' });
      expect(error).toMatchObject({ name: 'KernelDied', value: expect.stringContaining('killed by SIGKILL') });
      expect(isAlive(pid)).toBe(false);
      await impatient.contexts.destroy(stubborn);
    } finally {
      await impatient.close();
    }
  });
});

describe('a kernel that dies', () => {
  test('is reported in the execution, after its output, and the context can be destroyed', async () => {
    const doomed = await python.create('python3');
    const go = elsewhere('die');
    const code = `import os, time
print("last words")
while not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)
os.kill(os.getpid(), 11)`;
    const stream = python.stream({ contextId: doomed, code });
    expect((await stream.next()).value).toMatchObject({ type: 'stdout', content: 'last words\n' });
    fs.writeFileSync(go, '');
    const ran = await record(stream);
    expect(ran.error).toMatchObject({ name: 'KernelDied', value: expect.stringContaining('killed by SIGSEGV') });
    expect(ran.error!.traceback).toContain('Segmentation fault');
    expect((await python.run({ contextId: doomed, code: '1' })).error!.name).toBe('KernelDied');
    await python.contexts.destroy(doomed);
  });

  test('as the default context is followed by a new one', async () => {
    await python.run({ code: 'kept = 1' });
    expect((await python.run({ code: 'kept' })).main!.text).toBe('1');
    expect((await python.run({ code: 'import os; os._exit(7)' })).error!.value).toContain('exit code 7');
    expect((await python.run({ code: 'kept' })).error!.name).toBe('NameError');
  });
});

test('a Python without ipykernel is a failed precondition that names the package to install', async () => {
  const bare = path.join(python.home, 'bare');
  execFileSync(path.join(await realPython(), 'python3'), ['-m', 'venv', '--without-pip', bare]);
  const without = new TestContexts({ PATH: path.join(bare, 'bin') });
  try {
    await expect(without.create('python')).rejects.toMatchObject({
      code: 9,
      message: expect.stringMatching(/no ipykernel.*pip install ipykernel/s),
    });
    expect(await without.run({ code: 'echo still here', language: 'bash' })).toMatchObject({ stdout: 'still here\n' });
  } finally {
    await without.close();
  }
});
