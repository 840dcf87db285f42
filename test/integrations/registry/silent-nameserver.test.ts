import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from '@jest/globals';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'silent-nameserver-'));
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** A process with its own network, in which a nameserver takes every query and answers none. */
const script = `
  ip link set lo up
  mount --bind "$1" /etc/resolv.conf
  "$2" --eval "require('node:dgram').createSocket('udp4').bind(53, '127.0.0.1', () => console.log())" > "$4" &
  until [ -s "$4" ]; do sleep 0.05; done
  "$2" "$3" || true
  kill $!`;

test('names are given up after a time while the nameserver does not answer, or when the caller gives up', async () => {
  const resolver = path.join(folder, 'resolv.conf');
  // The resolver's own limit is ten minutes.
  fs.writeFileSync(resolver, `${'nameserver 127.0.0.1\n'.repeat(2)}options timeout:30 attempts:5\n`);
  const program = path.join(import.meta.dirname, 'resolving-process.ts');
  const words = ['sh', '-ec', script, 'sh', resolver, process.execPath, program, path.join(folder, 'listens')];
  const output = await new Promise<string>((resolve, reject) => {
    const options = { env: { ...process.env, NODE_OPTIONS: '' } };
    execFile('unshare', ['--mount', '--net', ...words], options, (error, stdout) =>
      error ? reject(error) : resolve(stdout),
    );
  });
  expect(JSON.parse(output)).toEqual([
    'The host registry.example.com is not known: AbortError',
    'The host registry.example.com is not known: TimeoutError',
    'false',
  ]);
}, 90_000);
