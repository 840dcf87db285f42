import fs from 'node:fs';
import path from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { StartRequestSchema } from '../../agent/proto/gen/sandboxagent_pb.js';
import { Connection } from './connection.ts';
import type { Subject } from './subject.ts';

/** The measurements of a burst of requests: the milliseconds of each, and the number of replies per second. */
export interface Burst {
  latencyMs: number[];
  perSecond: number;
}

/** Sends `count` requests over `connections`, after some warm-up requests. */
export async function burst(
  subject: Subject,
  connections: number,
  count: number,
  one: (connection: Connection) => Promise<unknown>,
): Promise<Burst> {
  const open = await Promise.all(Array.from({ length: connections }, () => Connection.open(subject.port)));
  const run = async (requests: number, latencyMs: number[]) => {
    let sent = 0;
    await Promise.all(
      open.map(async (connection) => {
        while (sent++ < requests) {
          const startedMs = performance.now();
          await one(connection);
          latencyMs.push(performance.now() - startedMs);
        }
      }),
    );
  };
  await run(Math.ceil(count / 5), []);
  const latencyMs: number[] = [];
  const startedMs = performance.now();
  await run(count, latencyMs);
  const perSecond = latencyMs.length / ((performance.now() - startedMs) / 1000);
  for (const connection of open) connection.close();
  return { latencyMs, perSecond };
}

/** Runs a command without output to its end. */
export async function startTrue(subject: Subject, connection: Connection): Promise<void> {
  let text = '';
  const message = Buffer.from(JSON.stringify({ process: { cmd: '/bin/true', args: [] } }));
  await subject.stream(connection, 'Process/Start', message, 'json', (bytes) => {
    text += bytes.toString('latin1');
  });
  if (!text.includes('"end"')) throw new Error(`the command did not end: ${text}`);
}

/** Megabytes per second of a process's output as received by its client. */
export async function stdoutSpeed(subject: Subject, mebibytes: number, codec: 'json' | 'proto'): Promise<number> {
  const process = { cmd: 'head', args: ['-c', `${mebibytes}M`, '/dev/zero'] };
  const message =
    codec === 'json'
      ? Buffer.from(JSON.stringify({ process }))
      : Buffer.from(toBinary(StartRequestSchema, create(StartRequestSchema, { process })));
  const connection = await Connection.open(subject.port);
  let received = 0;
  const startedMs = performance.now();
  await subject.stream(connection, 'Process/Start', message, codec, (bytes) => {
    received += bytes.length;
  });
  const seconds = (performance.now() - startedMs) / 1000;
  connection.close();
  const bytes = mebibytes * 2 ** 20;
  if (received < (codec === 'json' ? (bytes * 4) / 3 : bytes)) throw new Error(`only ${received} bytes came`);
  return bytes / 1e6 / seconds;
}

/** Megabytes per second of one multipart upload. */
export async function uploadSpeed(subject: Subject, file: string, mebibytes: number): Promise<number> {
  fs.rmSync(file, { force: true });
  const open =
    `--bound\r\nContent-Disposition: form-data; name="path"\r\n\r\n${file}\r\n` +
    '--bound\r\nContent-Disposition: form-data; name="file"; filename="blob"\r\n\r\n';
  const head = Buffer.from(open);
  const tail = Buffer.from('\r\n--bound--\r\n');
  const bytes = mebibytes * 2 ** 20;
  const block = Buffer.alloc(256 * 1024, 7);
  const connection = await Connection.open(subject.port);
  const startedMs = performance.now();
  const reply = connection.request(
    `POST /upload HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=bound\r\nX-Floor-Path: ${file}\r\n` +
      `Content-Length: ${head.length + bytes + tail.length}\r\n`,
    undefined,
  );
  await connection.write(head);
  for (let sent = 0; sent < bytes; sent += block.length) await connection.write(block);
  await connection.write(tail);
  await reply;
  const seconds = (performance.now() - startedMs) / 1000;
  connection.close();
  if (fs.statSync(file).size < bytes) throw new Error('the upload is not whole');
  return bytes / 1e6 / seconds;
}

/** Megabytes per second of one download. */
export async function downloadSpeed(subject: Subject, file: string): Promise<number> {
  const connection = await Connection.open(subject.port);
  let received = 0;
  const startedMs = performance.now();
  await connection.request(`GET /download${file} HTTP/1.1\r\n`, undefined, (bytes) => {
    received += bytes.length;
  });
  const seconds = (performance.now() - startedMs) / 1000;
  connection.close();
  if (received !== fs.statSync(file).size) throw new Error(`only ${received} bytes came`);
  return received / 1e6 / seconds;
}

/** Milliseconds from a file's creation to its event, and the number of missing events. */
export async function watchLatency(subject: Subject, folder: string, count: number) {
  const connection = await Connection.open(subject.port);
  let seen: (text: string) => void = () => {};
  const started = new Promise<void>((resolve) => {
    seen = (text) => text.includes('"start"') && resolve();
  });
  const message = Buffer.from(JSON.stringify({ path: folder }));
  subject
    .stream(connection, 'Filesystem/WatchDir', message, 'json', (bytes) => seen(bytes.toString('latin1')))
    .catch(() => {});
  await started;
  const latencyMs: number[] = [];
  let lost = 0;
  for (let i = 0; i < count; i++) {
    const came = new Promise<number>((resolve) => {
      seen = (text) => text.includes(`"file-${i}"`) && resolve(performance.now());
    });
    const startedMs = performance.now();
    fs.writeFileSync(path.join(folder, `file-${i}`), '');
    const atMs = await Promise.race([came, new Promise<number>((resolve) => setTimeout(resolve, 2000, 0))]);
    if (atMs === 0) lost += 1;
    else latencyMs.push(atMs - startedMs);
    // The changes are separate, like keystrokes and edits.
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  connection.close();
  return { latencyMs, lost };
}

/** Milliseconds from a byte of input to its echo by `cat`. */
export async function echoLatency(subject: Subject, count: number): Promise<number[]> {
  const output = await Connection.open(subject.port);
  const input = await Connection.open(subject.port);
  let seen: (text: string) => void = () => {};
  const pid = new Promise<number>((resolve) => {
    seen = (text) => {
      const found = /"pid":(\d+)/.exec(text);
      if (found) resolve(Number(found[1]));
    };
  });
  const message = Buffer.from(JSON.stringify({ process: { cmd: 'cat' } }));
  subject.stream(output, 'Process/Start', message, 'json', (bytes) => seen(bytes.toString('latin1'))).catch(() => {});
  const process = { pid: await pid };
  const latencyMs: number[] = [];
  for (let i = 0; i < count; i++) {
    const echoed = new Promise<number>((resolve) => {
      seen = (text) => text.includes('"stdout"') && resolve(performance.now());
    });
    const startedMs = performance.now();
    const sent = subject.unary(input, 'Process/SendInput', { process, input: { stdin: 'aw==' } });
    latencyMs.push((await echoed) - startedMs);
    await sent;
  }
  await subject.unary(input, 'Process/SendSignal', { process, signal: 'SIGNAL_SIGKILL' });
  output.close();
  input.close();
  return latencyMs;
}
