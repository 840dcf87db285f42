import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { offerUdpPorts } from '../../../db/hosts/hosts.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { Port } from '../../../domain/sandboxes/ports.ts';
import { DriverError } from '../../../runtime/driver.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { until } from '../../support/until.ts';

const driver = new MemoryDriver();
let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro' });
  const ports = { first: 20_000, last: 20_019 };
  await offerUdpPorts(plane.orm.em, plane.hostId, { publicAddress: '203.0.113.7', ports });
}, 120_000);
afterAll(() => plane.stop());

const udp = (number: number): Port => ({
  port: number,
  servicePort: number,
  protocol: 'UDP',
  name: `u${number}`,
  isProtected: false,
});
const refusal = (code: string) => expect.objectContaining({ name: 'AppError', code });

async function runningSandbox(customPorts: Port[] = []) {
  const sandbox = await plane.admit({ customPorts });
  await plane.commands.start(sandbox, { wait: true });
  return plane.row(sandbox.sandboxId);
}

/** The host's UDP ports of the sandbox, by the sandbox's port. */
const exposed = (sandboxId: SandboxId) =>
  Object.fromEntries((driver.exposed.get(sandboxId) ?? []).map((each) => [each.servicePort, each.hostPort]));

test('an added UDP port is in the row and on the host, and a removed one in neither', async () => {
  const sandbox = await runningSandbox([udp(53)]);
  expect(exposed(sandbox.sandboxId)).toEqual(sandbox.udpHostPorts);
  await plane.commands.addPort(sandbox, udp(54));
  const added = await plane.row(sandbox.sandboxId);
  expect(Object.keys(added.udpHostPorts)).toEqual(['53', '54']);
  expect(exposed(sandbox.sandboxId)).toEqual(added.udpHostPorts);
  await plane.commands.removePort(sandbox, 53);
  const removed = await plane.row(sandbox.sandboxId);
  expect(removed.customPorts.map((each) => each.port)).toEqual([54]);
  expect(Object.keys(removed.udpHostPorts)).toEqual(['54']);
  expect(exposed(sandbox.sandboxId)).toEqual(removed.udpHostPorts);
  await plane.commands.pause(sandbox, { wait: true });
  await plane.commands.resume(sandbox, { wait: true });
  expect(exposed(sandbox.sandboxId)).toEqual(removed.udpHostPorts);
});

test('TCP ports change nothing on the host', async () => {
  const sandbox = await runningSandbox();
  const before = driver.calls.length;
  await plane.commands.addPort(sandbox, { ...udp(80), protocol: 'TCP' });
  await plane.commands.removePort(sandbox, 80);
  expect(driver.calls.slice(before)).toEqual([]);
});

test('when the host cannot open or close a port, row and host stay as they were', async () => {
  const sandbox = await runningSandbox([udp(53)]);
  driver.failNext.set('expose', new DriverError('sandbox_absent', 'It is not here'));
  await expect(plane.commands.addPort(sandbox, udp(54))).rejects.toEqual(refusal('temporarily_unavailable'));
  driver.failNext.set('expose', new DriverError('sandbox_absent', 'It is not here'));
  await expect(plane.commands.removePort(sandbox, 53)).rejects.toEqual(refusal('temporarily_unavailable'));
  expect(await plane.row(sandbox.sandboxId)).toMatchObject({
    customPorts: sandbox.customPorts,
    udpHostPorts: sandbox.udpHostPorts,
  });
  await plane.commands.removePort(sandbox, 53);
  expect((await plane.row(sandbox.sandboxId)).udpHostPorts).toEqual({});
});

test('after concurrent changes of the same ports, row and host agree', async () => {
  const sandbox = await runningSandbox();
  const changes = Array.from({ length: 24 }, (_, at) =>
    at % 3 === 2
      ? plane.commands.removePort(sandbox, 53 + (at % 4))
      : plane.commands.addPort(sandbox, udp(53 + (at % 4))),
  );
  for (const result of await Promise.allSettled(changes)) {
    if (result.status === 'fulfilled') continue;
    expect(['port_taken', 'not_found', 'too_many_requests']).toContain(result.reason.code);
  }
  // The order of the changes is unknown, so it is possible that no port is left.
  await plane.commands.addPort(sandbox, udp(60));
  const row = await plane.row(sandbox.sandboxId);
  expect(row.customPorts.map((each) => each.port)).toContain(60);
  expect(Object.keys(row.udpHostPorts).sort()).toEqual(row.customPorts.map((each) => String(each.port)).sort());
  expect(exposed(sandbox.sandboxId)).toEqual(row.udpHostPorts);
});

test('ports change only while the sandbox runs, and its end gives every port back', async () => {
  const sandbox = await runningSandbox([udp(53)]);
  const refusesChanges = async () => {
    await expect(plane.commands.addPort(sandbox, udp(54))).rejects.toEqual(refusal('sandbox_not_running'));
    await expect(plane.commands.removePort(sandbox, 53)).rejects.toEqual(refusal('sandbox_not_running'));
  };
  await plane.commands.pause(sandbox, { wait: true });
  await refusesChanges();
  expect((await plane.row(sandbox.sandboxId)).udpHostPorts).toEqual(sandbox.udpHostPorts);
  await plane.commands.terminate(sandbox, { forget: false });
  await until(async () => (await plane.row(sandbox.sandboxId)).status === 'terminated');
  await refusesChanges();
  expect((await plane.row(sandbox.sandboxId)).udpHostPorts).toEqual({});
});
