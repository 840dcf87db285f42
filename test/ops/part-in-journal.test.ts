import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** @param script of a shell, whose output goes to the journal */
function outputOf(script: string) {
  const journal = 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/1) exec "$0" "$@"';
  const words = [process.execPath, path.join(import.meta.dirname, 'programs/part-in-journal.ts'), script];
  return run('sh', ['-c', journal, ...words], { env: { ...process.env, NODE_OPTIONS: '' } });
}

test("under systemd, the output of the supervisor's programs goes to the journal with their names", async () => {
  const script = `echo '{"level":40,"msg":"odd","step":1}'; sleep 0.1; echo plain >&2`;
  const { stdout, stderr } = await outputOf(script);
  expect(stdout).toBe('<4>part: odd {"step":1}\n<6>part: plain\n');
  // For the error of a program that does not start.
  expect(stderr).toBe('{"level":40,"msg":"odd","step":1}\nplain\n');
});

test('a line without an end goes to the journal in parts', async () => {
  const { stdout } = await outputOf('head -c 300000 /dev/zero | tr "\\0" x');
  const lines = stdout.trimEnd().split('\n');
  expect(lines.length).toBeGreaterThanOrEqual(3);
  expect(lines.map((line) => line.replace('<6>part: ', '')).join('')).toBe('x'.repeat(300_000));
});
