import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import { testSecretKey } from '../support/control-plane.ts';

test('SIGTERM ends a control worker that waits for Temporal', async () => {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-test-worker-'));
  // It accepts connections and never answers.
  const mute = net.createServer().listen(0, '127.0.0.1');
  await once(mute, 'listening');
  const address = `127.0.0.1:${(mute.address() as AddressInfo).port}`;
  const worker = spawn(process.execPath, ['worker/control.ts'], {
    cwd: path.resolve(import.meta.dirname, '../..'),
    env: {
      PATH: process.env.PATH,
      PLATFORM_SECRET_KEY: testSecretKey,
      DATABASE_URL: `postgres://${address}/platform`,
      TEMPORAL_ADDRESS: address,
      PLATFORM_DATA_DIR: dataDir,
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  try {
    await once(mute, 'connection');
    const ended = once(worker, 'exit');
    worker.kill('SIGTERM');
    expect(await ended).toEqual([null, 'SIGTERM']);
  } finally {
    worker.kill('SIGKILL');
    mute.close();
    fs.rmSync(dataDir, { recursive: true });
  }
});
