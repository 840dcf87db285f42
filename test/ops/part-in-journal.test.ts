import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

test("under systemd, the output of the supervisor's programs goes to the journal with their names", async () => {
  const journal = 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/1) exec "$0" "$1"';
  const words = [process.execPath, path.join(import.meta.dirname, 'programs/part-in-journal.ts')];
  const { stdout, stderr } = await promisify(execFile)('sh', ['-c', journal, ...words], {
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  expect(stdout).toBe('<4>part: odd {"step":1}\n<6>part: plain\n');
  // For the error of a program that does not start.
  expect(stderr).toBe('{"level":40,"msg":"odd","step":1}\nplain\n');
});
