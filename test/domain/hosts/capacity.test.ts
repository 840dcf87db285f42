import { describe, expect, test } from '@jest/globals';
import { freeCores, freeDiskMb, freeMemoryMb, memoryReserveMb, wantedCores } from '../../../domain/hosts/capacity.ts';
import { expectedUse, lessExpected } from '../../../domain/hosts/placement.ts';

describe('memory', () => {
  const machine = { totalMb: 24_000, availableMb: 10_000, reserveMb: 2400, stalledPct: 0 };

  test('a tenth is kept free, and at least 512 MB', () => {
    expect(memoryReserveMb(24_000)).toBe(2400);
    expect(memoryReserveMb(2000)).toBe(512);
  });

  test('free memory is the available memory less the reserve', () => {
    expect(freeMemoryMb(machine)).toBe(7600);
    expect(freeMemoryMb({ ...machine, availableMb: 2000 })).toBe(-400);
  });

  test('under pressure a quarter is kept free, so a nearly empty machine stays open for new sandboxes', () => {
    expect(freeMemoryMb({ ...machine, stalledPct: 4.9 })).toBe(7600);
    expect(freeMemoryMb({ ...machine, stalledPct: 5 })).toBe(4000);
    expect(freeMemoryMb({ ...machine, stalledPct: 90, availableMb: 6000 })).toBe(0);
    expect(freeMemoryMb({ ...machine, stalledPct: 90, reserveMb: 9000 })).toBe(1000);
  });
});

test('a disk counts the present writes for ten more seconds, and deletions only when they are done', () => {
  const disk = { freeMb: 50_000, reserveMb: 5000, growthMbPerSecond: 0 };
  expect(freeDiskMb(disk)).toBe(45_000);
  expect(freeDiskMb({ ...disk, growthMbPerSecond: 1000 })).toBe(35_000);
  expect(freeDiskMb({ ...disk, growthMbPerSecond: -1000 })).toBe(45_000);
});

describe('processor', () => {
  const uses = (count: number, cores: number, cpuCount = 2) =>
    Array.from({ length: count }, () => ({ cores, cpuCount }));

  test('with idle time, sandboxes need as much as they use', () => {
    expect(wantedCores([...uses(300, 0.001), ...uses(1, 1.2)], 0.8)).toBeCloseTo(1.5);
    expect(wantedCores([], 1)).toBe(0);
  });

  test('without idle time, throttled ones need all of their cores, and idle ones nothing', () => {
    expect(wantedCores([...uses(300, 0), ...uses(16, 0.12)], 1)).toBe(32);
    // Other programs use the whole processor.
    expect(wantedCores(uses(300, 0.003), 1)).toBeCloseTo(0.9);
    // A sandbox that is alone on the machine counts as one, regardless of its number of processes.
    expect(wantedCores([...uses(50, 0.01), ...uses(1, 1.9)], 1)).toBeCloseTo(2.5);
    expect(
      wantedCores(
        [
          { cores: 1, cpuCount: 8 },
          { cores: 0.1, cpuCount: 1 },
        ],
        1,
      ),
    ).toBe(9);
  });

  test('each core serves sixteen busy ones', () => {
    expect(freeCores(2, 32)).toBe(0);
    expect(freeCores(2, 0.5)).toBe(31.5);
  });
});

describe('a sandbox without measurements', () => {
  const nominal = { cpu: 2, memoryMb: 512, diskGb: 10 };

  test('counts with the known use of its template, and never with more than it may use', () => {
    expect(expectedUse(nominal, { cpu: 0.3, memoryMb: 60 })).toEqual({ cpu: 0.3, memoryMb: 60, diskMb: 256 });
    expect(expectedUse(nominal, { cpu: 8, memoryMb: 9000 })).toEqual({ cpu: 2, memoryMb: 512, diskMb: 256 });
  });

  test('counts with all of its memory if nothing is known of its template', () => {
    expect(expectedUse(nominal, null)).toEqual({ cpu: 0.25, memoryMb: 512, diskMb: 256 });
  });

  test('reduces its host’s free resources by this', () => {
    const free = { memoryTotalMb: 4000, cpu: 30, memoryMb: 1000, diskMb: 9000 };
    const expected = [expectedUse(nominal, { cpu: 1, memoryMb: 400 }), expectedUse(nominal, null)];
    expect(lessExpected(free, expected)).toEqual({ memoryTotalMb: 4000, cpu: 28.75, memoryMb: 88, diskMb: 8488 });
  });
});
