import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { pino } from 'pino';
import { AccessRecorder } from '../../gateway/access-recorder.ts';

const minute = 60_000;
let now: number;
beforeEach(() => {
  now = Date.UTC(2026, 10, 21, 12, 0, 20);
  jest.spyOn(Date, 'now').mockImplementation(() => now);
});
afterEach(() => {
  jest.restoreAllMocks();
});

test('each sandbox is recorded once, with the minute of its last use, even if it is recorded later', async () => {
  const handed: [string[], string][] = [];
  const recorder = new AccessRecorder(
    async (ids, at) => void handed.push([ids, at.toISOString()]),
    pino({ level: 'silent' }),
  );
  recorder.touch('sbx-a');
  recorder.touch('sbx-b');
  now += minute;
  recorder.touch('sbx-b');
  recorder.touch('sbx-b');
  now += minute;
  await recorder.close();
  expect(handed).toEqual([
    [['sbx-a'], '2026-11-21T12:00:00.000Z'],
    [['sbx-b'], '2026-11-21T12:01:00.000Z'],
  ]);
});

test('accesses that could not be written are kept, and replaced by later ones', async () => {
  const handed: [string[], string][] = [];
  let fails = true;
  const recorder = new AccessRecorder(
    async (ids, at) => {
      if (fails) throw new Error('the database is away');
      handed.push([ids, at.toISOString()]);
    },
    pino({ level: 'silent' }),
  );
  recorder.touch('sbx-a');
  recorder.touch('sbx-b');
  await recorder.flush();
  fails = false;
  now += minute;
  recorder.touch('sbx-a');
  await recorder.close();
  expect(handed).toEqual([
    [['sbx-a'], '2026-11-21T12:01:00.000Z'],
    [['sbx-b'], '2026-11-21T12:00:00.000Z'],
  ]);
});
