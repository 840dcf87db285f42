import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { apiFloods } from '../api/floods/api-floods.ts';
import { LoadedApi } from '../support/loaded-api.ts';

const floodMs = 1000 * Number(process.env.FLOOD_SECONDS ?? 8);
const program = path.resolve(import.meta.dirname, '../gateway/programs/flood.ts');
/** Connections, and garbage that has not been collected. */
const maxGrowthMib = 200;
/** Long enough for a busy machine. A flood without a limit would block every other caller for its whole duration. */
const answerMs = 30_000;

let api: LoadedApi;
beforeEach(async () => {
  api = await LoadedApi.start();
}, 60_000);
afterEach(() => api.stop());

test.each(apiFloods.map(({ name }) => name))(
  'a flood of %s leaves the API running, with little memory, and available for a caller from elsewhere',
  async (name) => {
    await api.load(500);
    const before = api.maxResidentMib();
    const flood = fork(program, [name, String(api.port)], { execArgv: [] });
    await once(flood, 'message');
    flood.send('start');
    const times: number[] = [];
    let closed = 0;
    try {
      for (const endsAt = performance.now() + floodMs; performance.now() < endsAt; await delay(50)) {
        const startedMs = performance.now();
        expect(await api.askFrom('127.0.0.2', answerMs)).toBe(200);
        times.push(performance.now() - startedMs);
      }
    } finally {
      flood.send('stop');
      [{ closed }] = await once(flood, 'message');
      flood.disconnect();
    }
    const growth = api.maxResidentMib() - before;
    const longest = Math.round(Math.max(...times));
    console.log(`${name}: ${growth} MiB more at most, longest answer ${longest} ms, ${closed} closed`);
    expect(growth).toBeLessThan(maxGrowthMib);
  },
  180_000,
);
