import assert from 'node:assert/strict';
import type * as Package from '@e2b/code-interpreter';
import { CalledMethods } from './called-methods.ts';
import { runParts } from './parts.ts';

/**
 * Calls every method of the code interpreter, through the version of the npm package @e2b/code-interpreter that the
 * variable E2B_PACKAGE names.
 */
const sdk: typeof Package = await import(process.env.E2B_PACKAGE!);
const { Sandbox } = sdk;

const called = new CalledMethods();
called.watchClass(Sandbox, 'Sandbox', 'sandbox');
const sandbox = await Sandbox.create({ timeoutMs: 600_000, envs: { GREETING: 'hello' } });

async function pythonRuns() {
  const heard: string[] = [];
  const execution = await sandbox.runCode(
    'import sys, os\nprint("out")\nprint("err", file=sys.stderr)\nx = 20\nx + 1',
    {
      onStdout: ({ line, error }) => heard.push(`${line.trim()} ${error}`),
      onStderr: ({ line, error }) => heard.push(`${line.trim()} ${error}`),
      onResult: ({ text, isMainResult }) => heard.push(`${text} ${isMainResult}`),
    },
  );
  assert.equal(execution.text, '21');
  assert.deepEqual([execution.logs.stdout.join(''), execution.logs.stderr.join('')], ['out\n', 'err\n']);
  assert.equal(execution.error, undefined);
  assert.deepEqual(heard.sort(), ['21 true', 'err true', 'out false']);
  const next = await sandbox.runCode('x + 2, os.environ["MARK"], os.environ["GREETING"]', { envs: { MARK: 'mine' } });
  assert.equal(next.text, "(22, 'mine', 'hello')");
  assert.ok(next.executionCount! > execution.executionCount!);
  assert.equal((await sandbox.runCode('os.getcwd()')).text, '/home/user');
}

async function errorsAreTold() {
  const context = await sandbox.createCodeContext();
  let told: string | undefined;
  const onError = ({ name }: Package.ExecutionError) => {
    told = name;
  };
  const { error } = await sandbox.runCode('def f():\n    return 1 / 0\nf()', { context, onError });
  assert.deepEqual([error!.name, error!.value, told], ['ZeroDivisionError', 'division by zero', 'ZeroDivisionError']);
  assert.match(error!.traceback, /return 1 \/ 0/);
  assert.equal((await sandbox.runCode('this is no code', { context })).error!.name, 'SyntaxError');
  await assert.rejects(sandbox.runCode('while True: pass', { context, timeoutMs: 700 }), sdk.TimeoutError);
  await sandbox.restartCodeContext(context);
  assert.equal((await sandbox.runCode('"f" in globals()', { context })).text, 'False');
}

async function resultsHaveFormats() {
  const context = await sandbox.createCodeContext({ language: 'python', cwd: '/tmp' });
  assert.deepEqual([context.language, context.cwd], ['python', '/tmp']);
  const run = (code: string) => sandbox.runCode(code, { context });
  assert.equal((await run('import os; os.getcwd()')).text, '/tmp');
  const frame = await run('import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", "y"]})');
  const [table] = frame.results;
  assert.deepEqual(table!.formats(), ['html', 'data']);
  assert.match(table!.text!, /0 +1 +x/);
  assert.match(table!.html!, /<table/);
  assert.deepEqual(table!.data, { a: [1, 2], b: ['x', 'y'] });
  const shown = await run(
    'from IPython.display import HTML, JSON, Markdown, Latex, SVG, Javascript, display\n' +
      'display(HTML("<b>1</b>"), JSON({"a": 1}), Markdown("# 1"), Latex("$1$"), SVG("<svg xmlns=\\"http://www.w3.org/2000/svg\\"/>"), Javascript("1"))',
  );
  const formats = shown.results.map((each) =>
    each
      .formats()
      .filter((format) => format !== 'text')
      .join(),
  );
  assert.deepEqual(formats, ['html', 'json', 'markdown', 'latex', 'svg', 'javascript']);
  assert.deepEqual(
    shown.results.map(({ isMainResult }) => isMainResult),
    Array(6).fill(false),
  );
  assert.deepEqual(shown.results[1]!.json, { a: 1 });
  assert.equal(JSON.parse(JSON.stringify(shown)).results.length, 6);
  await sandbox.removeCodeContext(context);
}

async function chartsHaveData() {
  const context = await sandbox.createCodeContext();
  const plot = async (...lines: string[]) => {
    const code = ['import matplotlib.pyplot as plt', 'plt.title("T")', ...lines, 'plt.show()'].join('\n');
    const { results, error } = await sandbox.runCode(code, { context });
    assert.equal(error, undefined);
    const [result] = results;
    assert.equal(Buffer.from(result!.png!, 'base64').subarray(1, 4).toString(), 'PNG');
    assert.equal(result!.chart!.title, 'T');
    return result!.chart!;
  };
  const bar = await plot('plt.bar(["a", "b"], [3, 4])', 'plt.xlabel("names")');
  assert.ok(bar.type === 'bar');
  assert.equal(bar.x_label, 'names');
  assert.deepEqual(
    bar.elements.map(({ label, value }) => [label, Number(value)]),
    [
      ['a', 3],
      ['b', 4],
    ],
  );
  const line = await plot('plt.plot([1, 2, 3], [2, 4, 6], label="first")');
  assert.ok(line.type === 'line');
  assert.equal(line.elements[0]!.label, 'first');
  assert.deepEqual(line.elements[0]!.points, [
    [1, 2],
    [2, 4],
    [3, 6],
  ]);
  assert.ok(line.x_scale === 'linear' && line.x_ticks.length > 0);
  const scatter = await plot('plt.scatter([1, 2], [5, 6])');
  assert.ok(scatter.type === 'scatter');
  assert.deepEqual(scatter.elements[0]!.points, [
    [1, 5],
    [2, 6],
  ]);
  const pie = await plot('plt.pie([1, 3], labels=["a", "b"])');
  assert.ok(pie.type === 'pie');
  assert.deepEqual(
    pie.elements.map(({ label, angle }) => [label, Math.round(angle)]),
    [
      ['a', 90],
      ['b', 270],
    ],
  );
  const box = await plot('plt.boxplot([1, 2, 3, 4, 100])');
  assert.ok(box.type === 'box_and_whisker');
  assert.deepEqual([box.elements[0]!.median, box.elements[0]!.outliers], [3, [100]]);
  const several = await sandbox.runCode(
    'f, (a, b) = plt.subplots(1, 2)\na.plot([1, 2])\nb.bar(["x"], [1])\nplt.show()',
    { context },
  );
  const chart = several.results[0]!.chart!;
  assert.ok(chart.type === 'superchart');
  assert.deepEqual(
    chart.elements.map(({ type }) => type),
    ['line', 'bar'],
  );
}

async function languagesRun() {
  const script = await sandbox.runCode('const x: number = 41; console.log("out"); x + 1', { language: 'typescript' });
  assert.deepEqual([script.text, script.logs.stdout.join('')], ['42', 'out\n']);
  assert.equal((await sandbox.runCode('[1, 2].map((x) => x * 2)', { language: 'js' })).error, undefined);
  const shell = await sandbox.runCode('echo $((6 * 7)); cd /tmp', { language: 'bash' });
  assert.equal(shell.logs.stdout.join(''), '42\n');
  assert.equal((await sandbox.runCode('pwd', { language: 'bash' })).logs.stdout.join(''), '/tmp\n');
  await assert.rejects(sandbox.runCode('1', { language: 'cobol' }), /cobol/);
  await assert.rejects(sandbox.createCodeContext({ language: 'cobol' }), /cobol/);
}

async function contextsAreListed() {
  const [first, second] = [await sandbox.createCodeContext(), await sandbox.createCodeContext({ language: 'bash' })];
  const ids = async () => (await sandbox.listCodeContexts()).map(({ id }) => id);
  assert.ok((await ids()).includes(first.id) && (await ids()).includes(second.id));
  await sandbox.runCode('y = 1', { context: first });
  assert.equal((await sandbox.runCode('"y" in globals()')).text, 'False');
  await sandbox.removeCodeContext(first);
  await sandbox.removeCodeContext(second.id);
  assert.ok(!(await ids()).includes(first.id) && !(await ids()).includes(second.id));
  await assert.rejects(sandbox.runCode('1', { context: first }), sdk.NotFoundError);
  await assert.rejects(sandbox.removeCodeContext(first), sdk.NotFoundError);
}

async function filesAreShared() {
  await sandbox.files.write('data.csv', 'a\n1\n2\n');
  const { text } = await sandbox.runCode('import pandas; int(pandas.read_csv("data.csv").a.sum())');
  assert.equal(text, '3');
  await sandbox.runCode('open("made.txt", "w").write("by code")');
  assert.equal(await sandbox.files.read('/home/user/made.txt'), 'by code');
}

await runParts(
  { pythonRuns, errorsAreTold, resultsHaveFormats, chartsHaveData, languagesRun, contextsAreListed, filesAreShared },
  () => called.names,
);
await sandbox.kill();
// The package keeps timers of requests that failed.
process.exit(0);
