import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { isPortFree } from '../../ops/local-stack/embedded/port-probe.mjs';
import { choosePorts } from '../../ops/local-stack/embedded/ports.ts';
import { freePort } from '../support/free-port.ts';

let dir: string;
let holders: net.Server[];

beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'ports-test-'));
  holders = [];
});

afterEach(() => {
  for (const holder of holders) holder.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

/** A port with a listener until the test's end. */
async function takenPort(): Promise<number> {
  // The ports after it are assigned to no program automatically.
  const holder = net.createServer().listen(await freePort(), '127.0.0.1');
  holders.push(holder);
  await once(holder, 'listening');
  return (holder.address() as net.AddressInfo).port;
}

test('if a preferred port is used, a later free one is chosen', async () => {
  const taken = await takenPort();
  const { api } = await choosePorts(dir, [{ name: 'api', preferred: taken }]);
  expect(api).toBeGreaterThan(taken);
  expect(await isPortFree(api)).toBe(true);
});

test('no port is assigned twice', async () => {
  const preferred = await takenPort();
  const { one, two } = await choosePorts(dir, [
    { name: 'one', preferred },
    { name: 'two', preferred },
  ]);
  expect(one).not.toBe(two);
});

test('a chosen port is remembered, even when the preferred one is free by then', async () => {
  const preferred = await takenPort();
  const first = await choosePorts(dir, [{ name: 'api', preferred }]);
  const closed = once(holders[0]!, 'close');
  holders[0]!.close();
  await closed;
  expect(await choosePorts(dir, [{ name: 'api', preferred }])).toEqual(first);
});

test('a named port takes precedence, and is refused when it is used', async () => {
  const taken = await takenPort();
  await expect(choosePorts(dir, [{ name: 'PLATFORM_API_PORT', explicit: taken, preferred: 7080 }])).rejects.toThrow(
    `PLATFORM_API_PORT: port ${taken} is taken on 127.0.0.1`,
  );
  const { api: free } = await choosePorts(dir, [{ name: 'api', preferred: taken }]);
  const { other, api } = await choosePorts(dir, [
    { name: 'other', preferred: free },
    { name: 'api', explicit: free, preferred: 7080 },
  ]);
  expect(api).toBe(free);
  expect(other).not.toBe(free);
});
