import v8 from 'node:v8';
import vm from 'node:vm';
import { expect, test } from '@jest/globals';
import { execResult } from '../../../../api/routes/sandboxes/exec/result.ts';

const maxBytes = 1024 * 1024;
const end = 'event: end\ndata: {"exit_code":3}\n\n';
const piece = (channel: 'stdout' | 'stderr', bytes: string) =>
  `event: ${channel}\ndata: {"data_b64":"${Buffer.from(bytes).toString('base64')}"}\n\n`;

async function* inChunks(frames: Iterable<string>): AsyncGenerator<Buffer> {
  for (const frame of frames) yield Buffer.from(frame);
}

function usedBytes(): number {
  v8.setFlagsFromString('--expose-gc');
  vm.runInNewContext('gc')();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test('pieces of both channels are joined, characters that are cut between pieces included', async () => {
  const euro = Buffer.from('€').toString('latin1');
  const cut = (from: number, to?: number) =>
    `event: stdout\ndata: {"data_b64":"${Buffer.from(euro.slice(from, to), 'latin1').toString('base64')}"}\n\n`;
  const frames = [piece('stdout', 'a'), cut(0, 1), piece('stderr', 'x'), cut(1), piece('stdout', '\0'), end];
  expect(await execResult(inChunks(frames))).toEqual({
    exitCode: 3,
    stdout: 'a€\0',
    stderr: 'x',
    truncated: false,
  });
});

test('the newest mebibyte of both channels together is kept, and only then something is missing', async () => {
  const exactly = await execResult(inChunks([...Array(64).fill(piece('stdout', 'a'.repeat(16_384))), end]));
  expect([exactly.stdout.length, exactly.truncated]).toEqual([maxBytes, false]);
  const lines = Array.from({ length: 400 }, (_, at) => `${at}`.padEnd(10_000));
  const more = await execResult(inChunks([...lines.map((line) => piece('stderr', line)), piece('stdout', 'end'), end]));
  expect(more.truncated).toBe(true);
  expect(more.stdout).toBe('end');
  expect(more.stderr === lines.join('').slice(3 - maxBytes)).toBe(true);
});

test.each([
  ['empty pieces', ['']],
  ['pieces of one byte, of both channels in turn', ['x']],
])('an agent that sends %s without end takes no more memory for them', async (_what, [bytes]) => {
  const chunk = (piece('stdout', bytes!) + piece('stderr', bytes!)).repeat(400);
  const before = usedBytes();
  let most = 0;
  const frames = function* () {
    for (let round = 0; round < 500; round += 1) {
      yield chunk;
      if (round % 100 === 99) most = Math.max(most, usedBytes() - before);
    }
    yield end;
  };
  expect((await execResult(inChunks(frames()))).exitCode).toBe(3);
  // The output of 400,000 pieces has at most 400 kB.
  expect(most).toBeLessThan(8 * maxBytes);
});
