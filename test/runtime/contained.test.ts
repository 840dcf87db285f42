import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { CommandError } from '../../runtime/process/command.ts';
import { runContained } from '../../runtime/process/contained.ts';
import { until } from '../support/until.ts';

const root = path.resolve(import.meta.dirname, '../..');

/** The processes of this machine with a given word in their arguments. */
function processesWith(word: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(word);
      } catch {
        return false; // It ended in the meantime.
      }
    });
}

/**
 * Descendants of every kind: with a separate session, without a parent, with ignored signals and with a closed output.
 */
const spreading = (word: string) =>
  `setsid sh -c 'trap "" TERM HUP INT; sleep 1000' ${word} >/dev/null 2>&1 & (sh -c 'sleep 1000; true' ${word} &); echo begun >&2; sleep 1000; true`;

let numbered = 0;
function newWord(): string {
  numbered += 1;
  return `contained-test-${process.pid}-${numbered}`;
}

test('an abort ends all started processes, and settles when they have ended', async () => {
  const word = newWord();
  const aborting = new AbortController();
  const run = runContained('sh', ['-c', spreading(word), word], {
    signal: aborting.signal,
    onLine: () => aborting.abort(),
  });
  await expect(run).rejects.toThrow('aborted');
  expect(processesWith(word)).toEqual([]);
});

test('processes that outlive the program are ended, too, and its output and failure are returned', async () => {
  const word = newWord();
  const leaves = `setsid sh -c 'sleep 1000; true' ${word} >/dev/null 2>&1 & echo said`;
  expect(await runContained('sh', ['-c', leaves, word])).toBe('said\n');
  await until(() => processesWith(word).length === 0);
  const failed = runContained('sh', ['-c', 'echo why >&2; exit 3']);
  await expect(failed).rejects.toThrow(CommandError);
  await expect(failed).rejects.toMatchObject({ exitCode: 3, stderr: 'why\n' });
});

test('a kill -9 of the calling process ends all of its processes', async () => {
  const word = newWord();
  const script = `
    import { runContained } from ${JSON.stringify(path.join(root, 'runtime/process/contained.ts'))};
    await runContained('sh', ['-c', ${JSON.stringify(spreading(word))}, ${JSON.stringify(word)}], { onLine: console.log });`;
  const asker = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: root,
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(asker.stdout, 'data');
  expect(processesWith(word).length).toBeGreaterThan(2);
  asker.kill('SIGKILL');
  await once(asker, 'exit');
  await until(() => processesWith(word).length === 0);
});

test('it sees no other processes, and shares no mounts', async () => {
  const seen = await runContained('sh', ['-c', 'mount -t tmpfs tmpfs /mnt; ls /proc | grep -c "^[0-9]"; ls -A /mnt']);
  expect(Number(seen)).toBeLessThan(5);
  expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toMatch(/ \/mnt .* tmpfs /);
});
