import fs from 'node:fs';
import path from 'node:path';
import { until } from '../support/until.ts';
import { outline, record, TestContexts } from './support/contexts.ts';

let node: TestContexts;
let contextId: string;

beforeAll(async () => {
  node = new TestContexts();
  contextId = await node.create('javascript');
});
afterAll(() => node?.close());

const run = (code: string, envVars: Record<string, string> = {}) => node.run({ contextId, code, envVars });

describe('JavaScript', () => {
  test('keeps its state, and lets const, let, functions and classes be declared again', async () => {
    await run('const a = 1; let b = 2; function f() { return a + b } class C {}');
    expect((await run('f()')).main!.text).toBe('3');
    await run('const a = 10; let b = 20; class C { x = 1 }');
    expect((await run('[f(), new C().x]')).main).toMatchObject({ text: '[ 30, 1 ]' });
  });

  test('awaits at top level, and a promise that is the last value', async () => {
    expect((await run('const got = await Promise.resolve(4); got')).main!.text).toBe('4');
    const { events, main } = await run(
      'async function main() { await new Promise((go) => setTimeout(go, 20)); console.log("done"); return 7 } main()',
    );
    expect(events).toHaveLength(2);
    expect(main!.text).toBe('7');
  });

  test('a promise that can never settle is an error, not an endless execution', async () => {
    expect((await run('await new Promise(() => {})')).error!.value).toContain('nothing can settle');
    // The garbage collector finds such promises: while they are awaited, and after their run was given up.
    await run(
      'require("node:v8").setFlagsFromString("--expose-gc"); let collect = require("node:vm").runInNewContext("gc")',
    );
    const { error } = await run('setTimeout(collect, 10); await new Promise(() => {})');
    expect(error!.value).toContain('nothing can settle');
    expect((await run('collect(); "alive"')).main!.text).toBe("'alive'");
  });

  test('an object is an object, a block is a block, undefined is no text', async () => {
    expect((await run('{ a: 1, b: [2] }')).main).toMatchObject({ text: '{ a: 1, b: [ 2 ] }' });
    expect((await run('{ let inner = 1; inner + 1 }')).main!.text).toBe('2');
    expect((await run('undefined')).main!.text).toBeUndefined();
    // Only a display of plain data is JSON. Published clients fail on the `json` of a value.
    expect((await run('[{ a: 1 }]')).main!.json).toBeUndefined();
    const shown = await run(
      'display({ a: [1, 2n ** 53n + 1n, 1e-12] }); const circle = {}; circle.self = circle; display(circle)',
    );
    expect(shown.displays.map(({ json }) => json)).toEqual(['{"a":[1,9007199254740993,1e-12]}', undefined]);
    const chart = await run('({ type: "line", elements: [{ label: "l", points: [[2n ** 53n + 1n, 2]] }] })');
    expect(chart.main).toMatchObject({ chart: { elements: [{ points: [{ x: '9007199254740993', y: 2 }] }] } });
    expect(chart.main!.json).toBeUndefined();
    expect((await run('10n')).main!.text).toBe('10n');
  });

  test('static and dynamic imports come from the working folder', async () => {
    const folder = path.join(node.home, 'project');
    fs.mkdirSync(path.join(folder, 'node_modules/dependency'), { recursive: true });
    fs.writeFileSync(path.join(folder, 'node_modules/dependency/index.js'), 'module.exports = { name: "dependency" }');
    fs.writeFileSync(path.join(folder, 'own.mjs'), 'export default "own"; export const named = 1;');
    const inProject = await node.create('node', folder);
    const { displays, error } = await node.run({
      contextId: inProject,
      code: `import os, { EOL as end } from 'node:os';
import * as paths from 'node:path';
import own, { named } from './own.mjs';
import 'node:fs';
const { name } = (await import('dependency')).default;
export const exported = require('dependency').name;
display([typeof os.cpus, end, paths.sep, own, named, name, exported, process.cwd(), import.meta.dirname])`,
    });
    expect(error).toBeUndefined();
    const expected = ['function', '\n', '/', 'own', 1, 'dependency', 'dependency', folder, folder];
    expect(JSON.parse(displays[0]!.json!)).toEqual(expected);
  });

  test('output of both streams, subprocesses and displays arrives in order while the code runs', async () => {
    const ran = await run(`
console.log("a"); console.error("b"); console.log("c");
require("node:child_process").execSync("echo d; echo é", { stdio: "inherit" });
await new Promise((go) => setTimeout(go, 20));
display({ "text/html": "<b>e</b>" }, { raw: true });
process.stdout.write("f");`);
    expect(outline(ran)).toEqual(['out a\n', 'err b\n', 'out c\nd\né\n', 'result', 'out f', 'result']);
    expect(ran.displays).toMatchObject([{ html: '<b>e</b>', isMainResult: false }]);

    const go = path.join(node.home, 'go');
    const code = `console.log("waiting"); while (!fs.existsSync(${JSON.stringify(go)})) {}`;
    await run('const fs = require("node:fs")');
    for await (const event of node.stream({ contextId, code })) if (event.type === 'stdout') fs.writeFileSync(go, '');
  });

  test('a chart can be displayed, and a value can define its own display', async () => {
    const { displays, main } = await run(`
display({ type: "line", title: "T", elements: [{ label: "l", points: [[1, 2], ["x", 3]] }] });
({ [Symbol.for("Jupyter.display")]: () => ({ "text/plain": "own", "image/svg+xml": "<svg/>" }) })`);
    const points = [
      { x: 1, y: 2 },
      { x: 'x', y: 3 },
    ];
    expect(displays[0]!.chart).toMatchObject({ type: 'line', elements: [{ kind: 'point', label: 'l', points }] });
    expect(main).toMatchObject({ text: 'own', svg: '<svg/>' });
  });

  test('errors have name, value and a traceback of the code alone', async () => {
    const { error } = await run('function f() {\n  throw new TypeError("boom")\n}\nf()');
    expect(error).toMatchObject({ name: 'TypeError', value: 'boom' });
    expect(error!.traceback).toMatch(/^TypeError: boom\n {4}at f \(run-\d+:2:9\)\n {4}at run-\d+:4:1$/);
    expect((await run('let = ;')).error!.name).toBe('SyntaxError');
    expect((await run('throw "text"')).error).toMatchObject({ name: 'Error', value: 'text' });
    expect((await run('await import("./missing.mjs")')).error!.value).toContain('missing.mjs');
  });

  test('background errors are written to stderr and end nothing', async () => {
    const { stderr, main } = await run(
      'setTimeout(() => { throw new Error("late") }, 1); Promise.reject(new Error("lost")); await new Promise((go) => setTimeout(go, 30)); "on"',
    );
    expect(stderr).toContain('Uncaught Error: late');
    expect(stderr).toContain('Uncaught Error: lost');
    expect(main!.text).toBe("'on'");
  });

  test('process.exit ends the execution with its code, and the context stays', async () => {
    await run('let kept = 1');
    const { main, stdout } = await run('console.log("before"); process.exit(3); console.log("after"); kept = 2');
    expect(stdout).toBe('before\n');
    expect(main).toMatchObject({ exitCode: 3, isMainResult: true });
    expect((await run('kept')).main).toMatchObject({ text: '1', exitCode: 0 });
  });

  test('variables of one execution are removed after it', async () => {
    expect((await run('process.env.ONE', { ONE: 'é' })).main!.text).toBe("'é'");
    expect((await run('process.env.ONE')).main!.text).toBeUndefined();
  });

  test('a slow reader slows the writing code down, and loses nothing', async () => {
    const progress = path.join(node.home, 'progress');
    const rounds = 1000;
    const code = `for (let turn = 0; turn < ${rounds}; turn++) {
  console.log("x".repeat(65535));
  require("node:fs").writeFileSync(${JSON.stringify(progress)}, String(turn));
}`;
    const stream = node.stream({ contextId, code });
    const first = await stream.next();
    let before = '';
    await until(async () => {
      const now = fs.existsSync(progress) ? fs.readFileSync(progress, 'utf8') : '';
      if (now !== '' && now === before) return true;
      before = now;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return false;
    });
    expect(Number(before)).toBeLessThan(rounds / 4);
    const rest = await record(stream);
    const firstLength = first.value?.type === 'stdout' ? first.value.content.length : 0;
    expect(firstLength + rest.stdout.length).toBe(rounds * 65536);
  });

  test.each([
    ['a busy loop', 'while (true) {}'],
    ['a wait', 'await new Promise((go) => setTimeout(go, 1e6))'],
    ['a subprocess', 'require("node:child_process").execSync("sleep 1000")'],
    ['endless output', 'while (true) console.log("x".repeat(1000))'],
  ])('a client that leaves interrupts %s, and the state stays', async (_what, code) => {
    await run('globalThis.kept = 1');
    for await (const event of node.stream({ contextId, code: `console.log("started");\n${code}` })) {
      if (event.type === 'stdout') break;
    }
    const after = await run('kept');
    expect([after.error, after.main?.text]).toEqual([undefined, '1']);
  });

  test('a client that disconnects at once interrupts the execution, too', async () => {
    const abort = new AbortController();
    const stream = node.stream({ contextId, code: 'while (true) {}' }, abort.signal);
    const next = stream.next();
    setImmediate(() => abort.abort());
    expect((await next).done).toBe(true);
    const after = await run('kept');
    expect([after.error, after.main?.text]).toEqual([undefined, '1']);
  });

  test('a busy loop after an await ends its kernel, and the next request gets an error', async () => {
    const impatient = new TestContexts({}, { interruptGraceMs: 300 });
    try {
      const doomed = await impatient.create('nodejs');
      const code = 'await null; console.log("started"); while (true) {}';
      for await (const event of impatient.stream({ contextId: doomed, code })) if (event.type === 'stdout') break;
      expect((await impatient.run({ contextId: doomed, code: '1' })).error).toMatchObject({
        name: 'KernelDied',
        value: expect.stringContaining('killed by SIGKILL'),
      });
      await impatient.contexts.destroy(doomed);
    } finally {
      await impatient.close();
    }
  });

  test('a kernel that runs out of memory is reported', async () => {
    const small = new TestContexts({ NODE_OPTIONS: '--max-old-space-size=16' });
    try {
      const code = 'console.log("first"); const all = []; while (true) all.push({})';
      const { error, stdout } = await small.run({ language: 'javascript', code });
      expect(stdout).toBe('first\n');
      expect(error!.name).toBe('KernelDied');
      expect(error!.traceback).toContain('heap');
    } finally {
      await small.close();
    }
  });
});

describe('TypeScript', () => {
  test('runs with its types removed, with enums, imports of types and state', async () => {
    const typescript = await node.create('typescript');
    const first = await node.run({
      contextId: typescript,
      code: `import type { Stats } from 'node:fs';
import { sep } from 'node:path';
interface Point { x: number }
enum Colour { Red = 3 }
const point: Point = { x: Colour.Red };
point.x as number`,
    });
    expect(first.main!.text).toBe('3');
    const second = await node.run({ contextId: typescript, code: 'const x: number = point.x + 1; `${sep}${x}`' });
    expect(second.main!.text).toBe("'/4'");
  });

  test('reports the error in code that does not parse', async () => {
    const { error } = await node.run({ language: 'deno', code: 'let v: = 3' });
    expect(error).toMatchObject({ name: 'SyntaxError' });
    expect(error!.traceback).toContain('let v: = 3');
    expect(error!.traceback).not.toContain('node:internal');
  });
});
