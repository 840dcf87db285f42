import { spawn } from 'node:child_process';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { journalLine } from '../../../platform/config/journal.ts';

const program = path.resolve(import.meta.dirname, '../../ops/programs/two-lines.ts');

/** Runs the program with its standard output to this process, which is the journal if `claim` says so. */
async function outputOf(claim: string): Promise<string> {
  const shell = `${claim} exec "$0" "$1"`;
  const child = spawn('sh', ['-c', shell, process.execPath, program], {
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return text(child.stdout);
}

test('a line of a log becomes its message and its other fields, with its priority before it', () => {
  const fields = { level: 40, time: 1_700_000_000_000, pid: 7, hostname: 'here', name: 'api', status: 503 };
  expect(journalLine(JSON.stringify({ ...fields, msg: 'request' }))).toBe('<4>request {"status":503}\n');
  expect(journalLine('{"level":30,"msg":"ready"}', 'api')).toBe('<6>api: ready\n');
  expect(journalLine('{"level":"error","ts":"2026-05-04T14:00:00.4Z","msg":"failed","shard-id":3}', 'temporal')).toBe(
    '<3>temporal: failed {"shard-id":3}\n',
  );
  expect(journalLine('{"level":20,"msg":"a detail"}')).toBe('<7>a detail\n');
  expect(journalLine('{"level":50,"msg":"two\\n<0>lines"}')).toBe('<3>two <0>lines\n');
});

test('a line in another form stays as it is, and cannot choose its own priority', () => {
  expect(journalLine('LOG:  checkpoint complete', 'postgres')).toBe('<6>postgres: LOG:  checkpoint complete\n');
  expect(journalLine('{"text":"no log"}')).toBe('<6>{"text":"no log"}\n');
  expect(journalLine('{"level":30', 'api')).toBe('<6>api: {"level":30\n');
  expect(journalLine('<0>an emergency', 'registry')).toBe('<6>registry: <0>an emergency\n');
});

test('a process writes lines for the journal only if its standard output is the journal', async () => {
  const journal = await outputOf('export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/1);');
  expect(journal).toBe('<6>begun {"step":1}\n<4>odd {"step":2}\n');
  // The variable also reaches the programs that a service starts, whose output is a pipe of the service.
  for (const elsewhere of ['export JOURNAL_STREAM=1:1;', 'unset JOURNAL_STREAM;']) {
    const lines = (await outputOf(elsewhere)).trim().split('\n');
    expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['begun', 'odd']);
  }
});
