import net from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Filesystem } from '../../agent/proto/gen/sandboxagent_pb.js';
import { FrameParser, frame } from '../../agent/rpc/frames.ts';
import { MultipartError, MultipartParser } from '../../agent/transfer/multipart.ts';
import { cacheDir } from '../../ops/setup/toolchain/locations.mjs';
import { ensureBaseImage } from '../../runtime/images/base-image.ts';
import { setChecksum, tarOf } from '../support/tar.ts';
import { eventually, headers, TestAgent } from './support/agent.ts';
import { PrivateRoot } from './support/private-root.ts';
import { Random } from './support/random.ts';

/**
 * Other seeds try other inputs, and a number more of them: FUZZ_SEED=7 FUZZ_INPUTS=1000000 npm test -- test/agent/fuzz
 */
const seed = Number(process.env.FUZZ_SEED ?? 1);
const damaged = Number(process.env.FUZZ_INPUTS ?? 30_000);
const whole = damaged / 3;
const maxFrameBytes = 5000;

interface Frame {
  flags: number;
  payload: Buffer;
}

/** The parser's result for the pieces, as text, which can be compared quickly. */
const parseFrames = (pieces: Buffer[]) => {
  const parser = new FrameParser(maxFrameBytes);
  const frames: Frame[] = [];
  for (const piece of pieces)
    for (const { flags, payload } of parser.push(piece)) frames.push({ flags, payload: Buffer.from(payload) });
  return textOfFrames(frames, parser.atBoundary);
};
const textOfFrames = (frames: Frame[], atBoundary: boolean) =>
  `${frames.map(({ flags, payload }) => `${flags}:${payload.toString('hex')}`).join(' ')} ${atBoundary}`;

test(`${whole} streams of frames, cut anywhere, come out as they went in`, () => {
  const random = new Random(seed);
  for (let i = 0; i < whole; i++) {
    const sent = Array.from({ length: random.below(5) }, () => ({
      flags: random.below(4),
      payload: random.bytes(random.below(random.pick([1, 10, 100]))),
    }));
    const bytes = Buffer.concat(sent.map(({ flags, payload }) => frame(flags, payload)));
    const found = parseFrames(random.cut(bytes));
    expect(`${i}: ${found}`).toBe(`${i}: ${textOfFrames(sent, true)}`);
  }
});

test(`${damaged} damaged streams of frames end in frames or a Connect error, the same however they are cut`, () => {
  const random = new Random(seed + 1);
  let refused = 0;
  const outcome = (pieces: Buffer[]) => {
    try {
      return parseFrames(pieces);
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      if (error.code !== Code.InvalidArgument && error.code !== Code.ResourceExhausted) throw error;
      refused += 1;
      return error.message;
    }
  };
  for (let i = 0; i < damaged; i++) {
    const two = [frame(random.below(4), random.bytes(random.below(40))), frame(0, random.bytes(random.below(40)))];
    const bytes = random.damage(Buffer.concat(two));
    const atOnce = outcome([bytes]);
    const cut = outcome(random.cut(bytes));
    if (cut !== atOnce) throw new Error(`input ${i}: ${atOnce} but ${cut}`);
  }
  expect(refused).toBeGreaterThan(1000);
});

test('a head with a large length uses no memory before the data arrive', () => {
  const parser = new FrameParser(2 ** 31);
  const head = Buffer.from([0, 0x7f, 0, 0, 0]);
  const before = process.memoryUsage().arrayBuffers;
  expect([...parser.push(Buffer.concat([head, Buffer.alloc(100)]))]).toEqual([]);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
});

interface Part {
  name: string;
  filename: string | undefined;
  content: Buffer;
}

/** The parser's result for the pieces, as text. */
const parseParts = (boundary: string, pieces: Buffer[]) => {
  const parser = new MultipartParser(boundary, { maxParts: 100 });
  const parts: Part[] = [];
  let open = false;
  const check = (holds: boolean) => {
    if (!holds) throw new Error('events out of order');
  };
  for (const piece of pieces) {
    for (const event of parser.push(piece)) {
      if (event.kind === 'part') {
        check(!open);
        open = true;
        parts.push({ name: event.name, filename: event.filename, content: Buffer.alloc(0) });
      } else if (event.kind === 'data') {
        check(open && event.bytes.length > 0);
        parts.at(-1)!.content = Buffer.concat([parts.at(-1)!.content, event.bytes]);
      } else if (event.kind === 'partEnd') {
        check(open);
        open = false;
      } else check(!open);
    }
  }
  return textOfParts(parts, parser.finished);
};
const textOfParts = (parts: Part[], finished: boolean) =>
  `${parts.map(({ name, filename, content }) => `${name}|${filename}|${content.toString('hex')}`).join(' ')} ${finished}`;

/** Content that consists of parts of delimiters. */
const trickyContent = (random: Random, boundary: string) => {
  const pieces = [
    '\r\n',
    '\r',
    '\n',
    '--',
    `--${boundary.slice(0, -1)}`,
    `\r\n--${boundary.slice(0, 2)}`,
    'x',
    '\r\n--',
    boundary,
    '\0',
  ];
  const content = Buffer.from(Array.from({ length: random.below(20) }, () => random.pick(pieces)).join(''));
  return content.includes(`\r\n--${boundary}`) ? Buffer.from('plain') : content;
};

const formBytes = (boundary: string, parts: Part[]) =>
  Buffer.concat([
    ...parts.flatMap(({ name, filename, content }) => [
      Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\nContent-Type: x/y\r\n\r\n`,
      ),
      content,
      Buffer.from('\r\n'),
    ]),
    Buffer.from(`--${boundary}--\r\n`),
  ]);

test(`${whole} forms, cut anywhere, come out as they went in`, () => {
  const random = new Random(seed + 2);
  for (let i = 0; i < whole; i++) {
    const boundary = random.pick(['b', '--', 'xxBOUNDxx', '----WebKitFormBoundary7MA4YWxkTrZu0gW']);
    const parts = Array.from({ length: random.below(4) }, () => ({
      name: random.pick(['file', 'path', 'ä', '']),
      filename: random.pick([undefined, 'f', 'name.bin']),
      content: trickyContent(random, boundary),
    }));
    const found = parseParts(boundary, random.cut(formBytes(boundary, parts)));
    expect(`${i}: ${found}`).toBe(`${i}: ${textOfParts(parts, true)}`);
  }
});

test(`${damaged} damaged forms end in parts or a MultipartError, the same however they are cut`, () => {
  const random = new Random(seed + 3);
  let refused = 0;
  const outcome = (pieces: Buffer[]) => {
    try {
      return parseParts('bound', pieces);
    } catch (error) {
      if (!(error instanceof MultipartError)) throw error;
      refused += 1;
      return error.message;
    }
  };
  for (let i = 0; i < damaged; i++) {
    const parts = [
      { name: 'path', filename: undefined, content: Buffer.from('/tmp/x') },
      { name: 'file', filename: 'f', content: trickyContent(random, 'bound') },
    ];
    const bytes = random.damage(formBytes('bound', parts));
    const atOnce = outcome([bytes]);
    const cut = outcome(random.cut(bytes));
    if (cut !== atOnce) throw new Error(`input ${i}: ${atOnce} but ${cut}`);
  }
  expect(refused).toBeGreaterThan(1000);
});

test('heads and preambles without an end are refused before they fill memory', () => {
  for (const [start, filler] of [
    ['--b\r\n', 'x: y\r\n'],
    ['', 'no boundary here '],
  ] as const) {
    const parser = new MultipartParser('b', { maxParts: 100 });
    let given = 0;
    expect(() => {
      for (const _ of parser.push(Buffer.from(start)));
      for (; given < 10_000_000; given += 1000)
        for (const parsed of parser.push(Buffer.from(filler.repeat(100)))) expect(parsed).toBeUndefined();
    }).toThrow(MultipartError);
    expect(given).toBeLessThan(1_000_000);
  }
});

/** Damaged paths lead anywhere: so the agent has a root of its own, that goes with it. */
let agent: TestAgent;
let root: PrivateRoot;
beforeAll(async () => {
  const image = await ensureBaseImage({ cacheDir: cacheDir() });
  root = await PrivateRoot.over(image.rootfs, cacheDir());
  agent = await TestAgent.start(root.options(image.config.env));
}, 300_000);
afterAll(async () => {
  await agent?.stop();
  root?.remove();
});

/** Sends an unchanged body, and resolves when the agent has answered or closed. */
const send = (path: string, contentType: string, body: Buffer) =>
  new Promise<string>((resolve) => {
    const lines = Object.entries(
      headers({ host: 'x', 'content-type': contentType, 'content-length': String(body.length), connection: 'close' }),
    );
    const socket = net.connect(agent.port, '127.0.0.1', () => {
      socket.write(`POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
      socket.write(body);
    });
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });

test('the agent answers each of 3,000 damaged requests and survives', async () => {
  const random = new Random(seed + 4);
  const folder = '/tmp/fuzzed';
  await agent.client(Filesystem).makeDir({ path: folder });
  const message = () =>
    Buffer.from(
      random.pick([
        JSON.stringify({ path: `${folder}/${random.below(100)}` }),
        JSON.stringify({ process: { cmd: 'true', args: ['a'], envs: { A: 'b' }, cwd: '/' }, tag: 't' }),
        JSON.stringify({ process: { pid: random.below(2 ** 31) }, signal: 'SIGNAL_SIGTERM', input: { stdin: 'eA==' } }),
      ]),
    );
  const one = () => {
    const kind = random.below(4);
    if (kind === 0) {
      const parts = [
        { name: 'path', filename: undefined, content: Buffer.from(`${folder}/up-${random.below(100)}`) },
        { name: 'file', filename: 'f', content: random.bytes(random.below(200)) },
      ];
      return send('/upload', 'multipart/form-data; boundary=bound', random.damage(formBytes('bound', parts)));
    }
    const unary = random.pick([
      'Filesystem/Stat',
      'Filesystem/ListDir',
      'Process/SendInput',
      'Process/SendSignal',
      'Process/List',
    ]);
    const streaming = random.pick(['Process/Start', 'Process/Connect', 'Process/StreamInput']);
    if (kind === 1)
      return send(`/sandboxagent.${unary}`, `application/${random.pick(['json', 'proto'])}`, random.damage(message()));
    const body = random.damage(frame(0, message()));
    if (kind === 2)
      return send(`/sandboxagent.${streaming}`, `application/connect+${random.pick(['json', 'proto'])}`, body);
    return send(
      `/sandboxagent.${random.pick([unary, streaming])}`,
      `application/grpc-web+${random.pick(['json', 'proto'])}`,
      body,
    );
  };
  for (let sent = 0; sent < 3000; sent += 20) {
    for (const text of await Promise.all(Array.from({ length: 20 }, one))) expect(text).toMatch(/^HTTP\/1\.1 \d{3} /);
  }
  expect((await agent.post('Filesystem/Stat', { path: folder })).status).toBe(200);
  expect(agent.isAlive).toBe(true);
  expect(agent.log).toBe('');
  // It releases its memory after some quiet seconds.
  await eventually(() => agent.privateMib() < 100);
}, 300_000);

test('the agent answers each of 2,000 damaged archives, and unpacks none outside of its folder', async () => {
  const random = new Random(seed + 5);
  const names = ['a', 'a/b', 'd/', './x', '../out', '/out', 'l', 'l/x', 'n'.repeat(120)];
  const types = ['file', 'directory', 'symlink', 'link', 'fifo'] as const;
  const one = async () => {
    const entries = Array.from({ length: 1 + random.below(4) }, () => ({
      ...{ name: random.pick(names), type: random.pick([...types]), linkname: random.pick(['a', '..', '/etc']) },
      ...(random.below(2) === 0 && {
        pax: { mtime: random.pick(['1.5', '-1', '1e400', 'x']), size: random.pick(['0', '3', '-1']) },
      }),
    }));
    const whole = await tarOf(...entries.map((entry) => ({ ...entry, content: entry.type === 'file' ? 'abc' : '' })));
    const tar = random.damage(whole);
    // Headers with a wrong checksum are refused before anything else is read.
    for (let at = 0; at + 512 <= tar.length; at += 512)
      if (tar.toString('latin1', at + 257, at + 262) === 'ustar') setChecksum(tar, at);
    return send(`/archive?path=/tmp/unpacked/${random.below(50)}`, 'application/x-tar', tar);
  };
  const outcomes = new Set<string>();
  for (let sent = 0; sent < 2000; sent += 10) {
    for (const text of await Promise.all(Array.from({ length: 10 }, one))) {
      expect(text).toMatch(/^HTTP\/1\.1 (200|400|403|404|409) /);
      outcomes.add(text.slice(9, 12));
    }
  }
  expect([...outcomes]).toEqual(expect.arrayContaining(['200', '400']));
  const there = await agent.client(Filesystem).listDir({ path: '/tmp', depth: 1 });
  expect(there.entries.map(({ name }) => name)).not.toContain('out');
  const unpacked = await agent.client(Filesystem).listDir({ path: '/tmp/unpacked', depth: 1000 });
  expect(unpacked.entries.filter(({ name }) => name.startsWith('.upload'))).toEqual([]);
  expect([agent.isAlive, agent.log]).toEqual([true, '']);
}, 300_000);
