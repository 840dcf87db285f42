import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { bothArchitectures, namesOfCalls, numberOfCall } from '../support/system-call-numbers.ts';

/** The system calls that scripts make by number, and those of the seccomp profile, on both architectures. */
const runtime = path.join(import.meta.dirname, '../../runtime');
const read = (file: string) => readFileSync(path.join(runtime, file), 'utf8');

/** Where a file has the number of one system call, on arm64 and on x86-64. */
const choice = /(?:'arm64'|\$is_arm) \? (?<arm64>\d+) : (?<x64>\d+)/;
const numbers: Record<string, { call: string; text: RegExp }> = {
  'images/enter-tree.pl': { call: 'prctl', text: /x86_64 => (?<x64>\d+), aarch64 => (?<arm64>\d+)/ },
  'kubernetes/mounts/serve-mount.pl': { call: 'recvmsg', text: choice },
  'mounts/fusermount.pl': { call: 'sendmsg', text: choice },
  'oci/copy-disk.pl': { call: 'syncfs', text: choice },
  'oci/fence.ts': { call: 'statfs', text: choice },
  'oci/mounts/s3fs-container.ts': { call: 'prctl', text: /x64: (?<x64>\d+), arm64: (?<arm64>\d+)/ },
  'oci/warm-pools.ts': { call: 'read', text: choice },
};

test.each(Object.entries(numbers))('%s makes the system call that it means', (file, { call, text }) => {
  const { arm64, x64 } = text.exec(read(file))!.groups!;
  expect(Number(arm64)).toBe(numberOfCall(call, 'arm64'));
  expect(Number(x64)).toBe(numberOfCall(call, 'x64'));
});

const rows = (text: string) =>
  [...text.matchAll(/(\w+) => (\d+)/g)].map(([, name, number]): [string, number] => [name!, Number(number)]);

const tables = ['images/pack-tree.pl', 'images/unpack-layer.pl', 'mounts/kernel.pl'];

test.each(tables)('the table of %s has the numbers of both architectures', (file) => {
  const text = read(file);
  const [, arm64, x64] = /eq 'arm64'\s*\?\s*\(([^)]*)\)\s*:\s*\(([^)]*)\)/.exec(text)!;
  const inTable = { arm64: rows(arm64!), x64: rows(x64!) };
  expect(inTable.arm64.length).toBeGreaterThan(2);
  for (const each of bothArchitectures) {
    expect(inTable[each]).toEqual(inTable[each].map(([name]) => [name, numberOfCall(name, each)]));
  }
  expect(inTable.arm64.map(([name]) => name)).toEqual(inTable.x64.map(([name]) => name));
});

test('the system calls from 424 on have one number on both architectures', () => {
  const [, common] = /%nr = \(([\s\S]*?)\$arch eq/.exec(read('mounts/kernel.pl'))!;
  const table = rows(common!);
  expect(table.length).toBeGreaterThan(5);
  for (const architecture of bothArchitectures) {
    expect(table).toEqual(table.map(([name]) => [name, numberOfCall(name, architecture)]));
  }
});

test('no other file of the runtime has a number of a system call', () => {
  const files = readdirSync(runtime, { recursive: true, encoding: 'utf8' }).filter((file) => /\.(pl|ts)$/.test(file));
  const withNumbers = files.filter((file) => /\b(arm64|aarch64|is_arm)\b.*\b\d+\b|'arm64'\s*\?\s*\(/.test(read(file)));
  expect(withNumbers.sort()).toEqual([...Object.keys(numbers), ...tables].sort());
});

/** Sandboxes get ENOSYS for these, as on an older kernel: `seccomp.ts` says why. */
const unknownInside = [
  ...['clone3', 'sched_setattr'],
  ...['io_cancel', 'io_destroy', 'io_getevents', 'io_pgetevents', 'io_setup', 'io_submit'],
];
/** As `unknownInside`. Only newer kernels than that of Debian 12 know them. */
const newer = ['listmount', 'lsm_get_self_attr', 'lsm_list_modules', 'lsm_set_self_attr', 'statmount', 'uretprobe'];
/** Numbers of x86-64 that no kernel has ever implemented. */
const neverMade = ['getpmsg', 'putpmsg', 'security', 'tuxcall'];

test.each(bothArchitectures)('the seccomp profile decides on every system call of %s', (architecture) => {
  const { syscalls } = JSON.parse(read('oci/seccomp.json')) as { syscalls: { names: string[] }[] };
  const decided = new Set(syscalls.flatMap(({ names }) => names));
  const calls = namesOfCalls(architecture);
  expect(calls.length).toBeGreaterThan(300);
  const undecided = calls.filter((name) => !decided.has(name) && ![...neverMade, ...newer].includes(name));
  expect(undecided.sort()).toEqual([...unknownInside].sort());
});
