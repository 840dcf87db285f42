import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { until } from '../../support/until.ts';

const module = path.resolve(import.meta.dirname, '../../../platform/config/service-manager.ts');
let folder: string;

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'service-manager-'));
});

afterEach(() => fs.rmSync(folder, { recursive: true }));

/** Reports from a process of its own, because the native library reads the real environment. */
function reportReady(socket: string | undefined) {
  const program = `await (await import(${JSON.stringify(module)})).reportReady(); console.log('reported');`;
  return promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    env: { PATH: process.env.PATH, ...(socket && { NOTIFY_SOCKET: socket }) },
  });
}

/** Prints the first datagram that arrives at a socket. */
const receiver = `use Socket;
  socket(my $in, AF_UNIX, SOCK_DGRAM, 0) or die $!;
  bind($in, sockaddr_un($ARGV[0])) or die $!;
  recv($in, my $message, 100, 0); print $message;`;

test('systemd hears that a process is ready', async () => {
  const socket = path.join(folder, 'notify');
  const child = spawn('perl', ['-e', receiver, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  const received = text(child.stdout);
  await until(() => fs.existsSync(socket));
  await reportReady(socket);
  expect(await received).toBe('READY=1');
});

test('without systemd nothing is sent, and a message that cannot be sent is an error', async () => {
  await expect(reportReady(undefined)).resolves.toMatchObject({ stdout: 'reported\n' });
  await expect(reportReady(path.join(folder, 'nobody'))).rejects.toMatchObject({
    stderr: expect.stringContaining('systemd could not be told'),
  });
});
