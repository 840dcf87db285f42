import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { ProcessRecord } from '../../ops/local-stack/embedded/process-record.ts';
import { RotatingLog } from '../../ops/local-stack/embedded/rotating-log.ts';
import { until } from '../support/until.ts';

let folder: string;
const file = () => path.join(folder, 'log');
const fill = () => path.join(folder, 'fill');

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-full-log-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'full-log', folder]);
});
afterEach(() => {
  execFileSync('umount', ['-l', folder]);
  fs.rmdirSync(folder);
});

/** @param bytes that remain free, in whole pages */
function fillDisk(bytes = 0): void {
  const { bavail, bsize } = fs.statfsSync(folder);
  fs.writeFileSync(fill(), Buffer.alloc(bavail * bsize - bytes));
}

test('a log on a full disk drops lines, and logs their number when there is space', async () => {
  const log = new RotatingLog(file());
  log.write(Buffer.from('first\n'));
  fillDisk();
  for (let line = 0; line < 100; line += 1) log.write(Buffer.from(`${'x'.repeat(99)}\n`));
  fs.rmSync(fill());
  await until(() => {
    log.write(Buffer.from('last\n'));
    return fs.readFileSync(file(), 'utf8').endsWith('last\n');
  });
  log.close();
  const text = fs.readFileSync(file(), 'utf8');
  const dropped = Number(/\[(\d+) bytes of log were dropped/.exec(text)?.[1]);
  expect(text.startsWith('first\n')).toBe(true);
  expect(dropped).toBeGreaterThan(5000);
});

test('a log that cannot be opened begins when there is space', async () => {
  fillDisk();
  execFileSync('mount', ['-o', 'remount,ro', folder]);
  const log = new RotatingLog(file());
  log.write(Buffer.from('lost\n'));
  execFileSync('mount', ['-o', 'remount,rw', folder]);
  fs.rmSync(fill());
  await until(() => {
    log.write(Buffer.from('kept\n'));
    return fs.existsSync(file());
  });
  expect(fs.readFileSync(file(), 'utf8')).toMatch(/bytes of log were dropped.*\nkept\n$/);
});

test('a record of processes that cannot be written stays unchanged', () => {
  const record = new ProcessRecord(path.join(folder, 'processes.json'));
  record.add('this', process.pid);
  const before = fs.readFileSync(path.join(folder, 'processes.json'), 'utf8');
  fillDisk();
  record.remove(process.pid);
  expect(fs.readFileSync(path.join(folder, 'processes.json'), 'utf8')).toBe(before);
  fs.rmSync(fill());
  record.remove(process.pid);
  expect(fs.readFileSync(path.join(folder, 'processes.json'), 'utf8')).toBe('[]');
});

test('a process continues when its standard output is a file on a full disk, and logs how much it dropped', async () => {
  const output = fs.openSync(file(), 'a');
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'programs/chatty.ts')], {
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', output, 'inherit', 'ipc'],
  });
  fs.closeSync(output);
  let alive = 0;
  child.on('message', () => {
    alive += 1;
  });
  try {
    await until(() => alive > 10 && fs.statfsSync(folder).bavail === 0);
    const before = alive;
    await until(() => alive > before + 50);
    fs.truncateSync(file());
    await until(() => {
      const text = fs.readFileSync(file(), 'utf8');
      if (fs.statfsSync(folder).bavail === 0) fs.truncateSync(file());
      return text.includes('lines of this log were dropped');
    });
    expect(child.exitCode).toBeNull();
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

test('a process continues when its standard output has no reader any more', async () => {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'programs/chatty.ts')], {
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  let alive = 0;
  child.on('message', () => {
    alive += 1;
  });
  try {
    await once(child, 'message');
    child.stdout!.destroy();
    const before = alive;
    await until(() => alive > before + 50);
    expect(child.exitCode).toBeNull();
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});
