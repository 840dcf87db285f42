import { expect, test } from '@jest/globals';
import type { FreeCapacity } from '../../../domain/hosts/capacity.ts';
import {
  bestFit,
  fewestShortages,
  findShortages,
  fits,
  type HostCapacity,
  type RequiredCapacity,
} from '../../../domain/hosts/placement.ts';

const unlimited = { capacity: null, reserved: 100_000 };
const gib = 1024;

/** A host that has measured itself, without a limit on promises. */
const measured = (hostId: string, free: Partial<FreeCapacity> = {}): HostCapacity => ({
  hostId,
  region: 'local',
  cpu: unlimited,
  memoryMb: unlimited,
  diskGb: unlimited,
  udpPorts: { capacity: 4, reserved: 0 },
  free: { memoryTotalMb: 16 * gib, cpu: 30, memoryMb: 10 * gib, diskMb: 50 * gib, ...free },
});
/** A host that has not measured itself. */
const promised = (hostId: string, reservedMb: number, cpu = 0): HostCapacity => ({
  hostId,
  region: 'local',
  cpu: { capacity: 8, reserved: cpu },
  memoryMb: { capacity: 8192, reserved: reservedMb },
  diskGb: { capacity: 100, reserved: 0 },
  udpPorts: { capacity: 4, reserved: 0 },
  free: null,
});
const needed: RequiredCapacity = {
  ...{ cpu: 2, memoryMb: 1024, diskGb: 10, udpPorts: 0 },
  expected: { cpu: 0.5, memoryMb: 100, diskMb: 256 },
};

test('takes the fullest host with ample free resources, or else the emptiest', () => {
  const at = (gibFree: number) => measured(`${gibFree} GiB free`, { memoryMb: gibFree * gib });
  expect(bestFit([at(12), at(5), at(2)], needed)?.hostId).toBe('5 GiB free');
  expect(bestFit([at(1), at(3), at(2)], needed)?.hostId).toBe('3 GiB free');
  expect(bestFit([promised('empty', 0), promised('fuller', 4096), promised('full', 7800)], needed)?.hostId).toBe(
    'fuller',
  );
});

test('promised resources do not count without a limit; free ones do', () => {
  expect(findShortages(measured('spacious'), needed)).toEqual([]);
  expect(findShortages(measured('exact', { cpu: 0.5, memoryMb: 100, diskMb: 256 }), needed)).toEqual([]);
  expect(findShortages(measured('busy', { cpu: 0.4 }), needed)).toEqual(['cpu']);
  expect(findShortages(measured('full', { cpu: -1, memoryMb: 99, diskMb: 255 }), needed)).toEqual([
    'cpu',
    'memory',
    'disk',
  ]);
});

test('a limit on promised resources counts in addition to the free ones', () => {
  const limited = { ...measured('limited'), memoryMb: { capacity: 8192, reserved: 7800 } };
  expect(findShortages(limited, needed)).toEqual(['memory']);
  expect(findShortages(promised('no-cpu', 0, 7), needed)).toEqual(['cpu']);
  expect(fits(promised('exact', 8192 - 1024, 6), needed)).toBe(true);
  expect(findShortages(promised('few-udp-ports', 0), { ...needed, udpPorts: 5 })).toEqual(['udp_ports']);
});

test('a full disk accepts nothing, a full cache accepts resumes of existing sandboxes', () => {
  const resumed = { ...needed, diskGb: 0, expected: { cpu: 0, memoryMb: 0, diskMb: 0 } };
  expect(findShortages({ ...measured('full-disk'), fullDisk: 'data' }, resumed)).toEqual(['disk']);
  expect(findShortages({ ...measured('full-cache'), fullDisk: 'cache' }, needed)).toEqual(['disk']);
  expect(findShortages({ ...measured('full-cache'), fullDisk: 'cache' }, resumed)).toEqual([]);
});

test('a host under pressure refuses new sandboxes and lets frozen ones resume', () => {
  const pressed = measured('pressed', { cpu: -3, memoryMb: -500, diskMb: -1 });
  expect(fits(pressed, needed)).toBe(false);
  expect(fits(pressed, { ...needed, memoryMb: 0, diskGb: 0, expected: { cpu: 0, memoryMb: 0, diskMb: 0 } })).toBe(true);
});

test('if no host has enough, the one that lacks least determines the reported shortage', () => {
  const hosts = [measured('a', { cpu: 0, memoryMb: 0 }), measured('b', { memoryMb: 0 })];
  expect(bestFit(hosts, needed)).toBeNull();
  expect(fewestShortages(hosts, needed)).toEqual(['memory']);
  expect(fewestShortages([], needed)).toEqual([]);
});
