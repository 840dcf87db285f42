import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { lockFile } from '../../ops/setup/file-lock.mjs';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'file-lock-test-'));
const file = path.join(dir, 'some.lock');
const lockModule = path.resolve(import.meta.dirname, '../../ops/setup/file-lock.mjs');

afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

test('a lock is refused while it is held, waited for, and free after its release', async () => {
  const first = await lockFile(file, { wait: false });
  await expect(lockFile(file, { wait: false })).rejects.toThrow('is locked by another process');
  const order: string[] = [];
  const second = lockFile(file, { wait: true }).then((lock) => {
    order.push('second has it');
    return lock;
  });
  await expect(lockFile(file, { wait: false })).rejects.toThrow('is locked by another process');
  order.push('first lets go');
  await first.release();
  await (await second).release();
  expect(order).toEqual(['first lets go', 'second has it']);
});

test('the lock of a killed holder is free', async () => {
  const script = `import { lockFile } from ${JSON.stringify(lockModule)};
    await lockFile(${JSON.stringify(file)}, { wait: false });
    console.log('held');
    setInterval(() => {}, 60_000);`;
  const holder = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(holder.stdout, 'data');
  await expect(lockFile(file, { wait: false })).rejects.toThrow('is locked by another process');
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  await (await lockFile(file, { wait: true })).release();
});
