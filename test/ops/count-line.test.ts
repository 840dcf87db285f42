import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
/** In the project, because Jest looks for tests only there. */
const dir = fs.mkdtempSync(path.join(root, 'test/ops/count-line-'));

afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

interface Run {
  status: number;
  lastLine: string;
  /** The files of `retried:` lines, sorted. */
  retried: string[];
}

/** Runs `npm test` for test files of these sources. */
async function run(...sources: string[]): Promise<Run> {
  fs.rmSync(dir, { recursive: true, force: true });
  fs.mkdirSync(dir);
  sources.forEach((source, index) => {
    fs.writeFileSync(path.join(dir, `file-${index}.test.ts`), source);
  });
  return new Promise((resolve) => {
    const env = { ...process.env, NODE_OPTIONS: '', TEST_TIMES_FILE: '' };
    execFile(process.execPath, ['ops/development/test.ts', dir], { cwd: root, env }, (error, stdout) => {
      resolve({
        status: Number(error?.code ?? 0),
        lastLine: stdout.trimEnd().split('\n').at(-1)!,
        retried: [...stdout.matchAll(/^retried: (.*)$/gm)].map(([, file]) => path.basename(file!)).sort(),
      });
    });
  });
}

const passes = `test('a', () => expect(1).toBe(1));`;
const fails = `test('a', () => expect(1).toBe(1)); test('b', () => { throw new Error('no'); });`;
/** Fails in the first run of a file only. */
const failsOnce = `
  import fs from 'node:fs';
  test('a', () => expect(1).toBe(1));
  test('b', () => {
    const mark = import.meta.filename + '.failed';
    if (fs.existsSync(mark)) return expect(1).toBe(1);
    fs.writeFileSync(mark, '');
    throw new Error('no');
  });`;

test('the last line counts the passed tests, and the status is 0', async () => {
  expect(await run(`${passes} test('b', () => expect(1).toBe(1));`)).toEqual({
    status: 0,
    lastLine: '2 passed, 0 failed',
    retried: [],
  });
});

test('a test that fails, and one that is skipped, are failures', async () => {
  expect(await run(`${fails} test.skip('c', () => {});`)).toEqual({
    status: 1,
    lastLine: '1 passed, 2 failed',
    retried: [],
  });
});

test('a file that cannot be loaded is a failure', async () => {
  expect(await run(`import './missing.ts'; ${passes}`)).toEqual({
    status: 1,
    lastLine: '0 passed, 1 failed',
    retried: [],
  });
});

test('no tests at all is a failure', async () => {
  expect(await run()).toEqual({ status: 1, lastLine: '0 passed, 1 failed', retried: [] });
});

test('a file that fails among others is run once more, and the run is green if it passes then', async () => {
  expect(await run(failsOnce, passes, failsOnce)).toEqual({
    status: 0,
    lastLine: '5 passed, 0 failed',
    retried: ['file-0.test.ts', 'file-2.test.ts'],
  });
});

test('a file that fails twice fails the run, also if it cannot be loaded', async () => {
  expect(await run(fails, `import './missing.ts'; ${passes}`, passes)).toEqual({
    status: 1,
    lastLine: '2 passed, 2 failed',
    retried: ['file-0.test.ts', 'file-1.test.ts'],
  });
});

test('more than two files that fail are not run again', async () => {
  expect(await run(failsOnce, failsOnce, failsOnce)).toEqual({
    status: 1,
    lastLine: '3 passed, 3 failed',
    retried: [],
  });
});

test('a skipped test among other files fails the run without another run', async () => {
  expect(await run(passes, `${passes} test.skip('c', () => {});`)).toEqual({
    status: 1,
    lastLine: '2 passed, 1 failed',
    retried: [],
  });
});
