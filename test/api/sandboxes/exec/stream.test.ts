import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { type ExecFailure, execStream, type StreamOptions } from '../../../../api/routes/sandboxes/exec/events.ts';
import { FairTurns } from '../../../../domain/fair-turns.ts';
import { until } from '../../../support/until.ts';

const ready = 'event: ready\ndata: {}\n\n';
const end = 'id: run-2\nevent: end\ndata: {"exit_code":0}\n\n';
const keepalive = 'event: keepalive\ndata: {}\n\n';

/** @param agent gets the data received so far */
async function through(
  agent: (received: readonly string[]) => AsyncGenerator<Buffer>,
  options: Partial<StreamOptions> = {},
): Promise<string[]> {
  const broken: ExecFailure = { code: 'exec_interrupted', message: 'broken' };
  const received: string[] = [];
  const all = {
    keepaliveMs: 10_000,
    turn: async () => {},
    onSilence: async () => null,
    onBreak: async () => broken,
    ...options,
  };
  for await (const frames of execStream(agent(received), { signal: new AbortController().signal, ...all })) {
    received.push(frames.toString());
  }
  return received;
}

test('events arrive completely at every split', async () => {
  const text = ready + end;
  const received = await through(async function* () {
    for (const character of text) yield Buffer.from(character);
  });
  expect(received).toEqual([ready, end]);
});

test('an event in 100,000 pieces of one byte arrives completely', async () => {
  const event = `event: stdout\ndata: ${'x'.repeat(100_000)}\n\n`;
  const received = await through(async function* () {
    for (const byte of Buffer.from(event)) yield Buffer.of(byte);
    yield Buffer.from(end);
  });
  expect(received).toEqual([event, end]);
});

test('an endless event ends the stream, regardless of its pieces', async () => {
  let pieces = 0;
  const received = await through(async function* () {
    yield Buffer.from('event: stdout\ndata: ');
    for (; pieces < 10_000; pieces += 1) yield Buffer.alloc(1024, 'x');
  });
  expect(received).toEqual(['event: error\ndata: {"code":"exec_interrupted","message":"broken"}\n\n']);
  expect(pieces).toBeLessThan(200);
});

test('a long stream leaves no listeners on a signal that outlives it', async () => {
  const { signal } = new AbortController();
  let listeners = 0;
  await through(
    async function* () {
      for (let at = 0; at < 1000; at += 1) {
        yield Buffer.from(ready);
        await delay(0);
        listeners = Math.max(listeners, getEventListeners(signal, 'abort').length);
      }
      yield Buffer.from(end);
    },
    { signal },
  );
  expect(listeners).toBeLessThanOrEqual(1);
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

test('keepalives are sent during silence', async () => {
  const received = await through(
    async function* (soFar) {
      yield Buffer.from(ready);
      await until(() => soFar.filter((frame) => frame === keepalive).length >= 2);
      yield Buffer.from(end);
    },
    { keepaliveMs: 30 },
  );
  expect(received.filter((frame) => frame === keepalive).length).toBeGreaterThanOrEqual(2);
  expect([received[0], received.at(-1)]).toEqual([ready, end]);
});

test('silence after the end of the sandbox ends the stream', async () => {
  const received = await through(
    async function* () {
      yield Buffer.from(ready);
      await new Promise(() => {});
    },
    { keepaliveMs: 20, onSilence: async () => ({ code: 'sandbox_ended', message: 'gone' }) },
  );
  expect(received).toEqual([ready, 'event: error\ndata: {"code":"sandbox_ended","message":"gone"}\n\n']);
});

test('a connection that fails within an event ends with its own error', async () => {
  const received = await through(async function* () {
    yield Buffer.from(`${ready}id: run-2\nevent: stdo`);
    throw new Error('ECONNRESET');
  });
  expect(received).toEqual([ready, 'event: error\ndata: {"code":"exec_interrupted","message":"broken"}\n\n']);
});

test('an abort of its signal ends it immediately', async () => {
  const stop = new AbortController();
  const received = await through(
    async function* () {
      yield Buffer.from(ready);
      stop.abort();
      await new Promise(() => {});
    },
    { signal: stop.signal },
  );
  expect(received).toEqual([ready]);
});

test('many agents that send tiny events without end leave the event loop to other requests', async () => {
  const chunk = Buffer.from('event: stdout\ndata: {"data_b64":""}\n\n'.repeat(1700));
  const turns = new FairTurns(1);
  let reads = 0;
  let isOver = false;
  const floods = Array.from({ length: 32 }, async () => {
    const agent = async function* () {
      while (!isOver) {
        reads += 1;
        // The bytes are there at once: no read waits for the network.
        yield chunk;
      }
      yield Buffer.from(end);
    };
    const turn = () => new Promise<void>((resolve) => turns.run('caller', resolve));
    await through(agent, { turn });
  });
  // Each turn of the event loop has one read, and one more read is ahead of each stream.
  for (let at = 0; at < 50; at += 1) await new Promise(setImmediate);
  expect(reads).toBeLessThanOrEqual(2 * 50 + 32 + 2);
  isOver = true;
  await Promise.all(floods);
});
