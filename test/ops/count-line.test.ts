import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
/** In the project, because Jest looks for tests only there. */
const dir = fs.mkdtempSync(path.join(root, 'test/ops/count-line-'));

afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

async function run(source: string | undefined): Promise<{ status: number; lastLine: string }> {
  fs.rmSync(path.join(dir, 'some.test.ts'), { force: true });
  if (source !== undefined) fs.writeFileSync(path.join(dir, 'some.test.ts'), source);
  return new Promise((resolve) => {
    const env = { ...process.env, NODE_OPTIONS: '' };
    execFile(process.execPath, ['ops/development/test.ts', dir], { cwd: root, env }, (error, stdout) => {
      resolve({ status: Number(error?.code ?? 0), lastLine: stdout.trimEnd().split('\n').at(-1)! });
    });
  });
}

test('the last line counts the passed tests, and the status is 0', async () => {
  expect(await run(`test('a', () => expect(1).toBe(1)); test('b', () => expect(1).toBe(1));`)).toEqual({
    status: 0,
    lastLine: '2 passed, 0 failed',
  });
});

test('a test that fails, and one that is skipped, are failures', async () => {
  const source = `test('a', () => expect(1).toBe(1)); test('b', () => { throw new Error('no'); }); test.skip('c', () => {});`;
  expect(await run(source)).toEqual({ status: 1, lastLine: '1 passed, 2 failed' });
});

test('a file that cannot be loaded is a failure', async () => {
  expect(await run(`import './missing.ts'; test('a', () => expect(1).toBe(1));`)).toEqual({
    status: 1,
    lastLine: '0 passed, 1 failed',
  });
});

test('no tests at all is a failure', async () => {
  expect(await run(undefined)).toEqual({ status: 1, lastLine: '0 passed, 1 failed' });
});
