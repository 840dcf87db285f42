import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { expect, test } from '@jest/globals';
import { type ArchiveLimits, ArchiveRefusedError, LayerArchive } from '../../runtime/kubernetes/layer-archive.ts';
import { type TarEntry, tar } from '../support/tar-layer.ts';

/** The output of the pod of a build is checked against the limits of a layer. */
const limits: ArchiveLimits = { maxFiles: 5, maxBytes: 10_000, folders: new Set(['etc', 'root']) };

/** Reads in pieces that do not end where an entry ends. */
async function check(bytes: Buffer, changed: Partial<ArchiveLimits> = {}): Promise<{ bytes: number; passed: Buffer }> {
  const archive = new LayerArchive({ ...limits, ...changed });
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 333) pieces.push(bytes.subarray(at, at + 333));
  const passed: Buffer[] = [];
  archive.on('data', (chunk: Buffer) => passed.push(chunk));
  await pipeline(Readable.from(pieces), archive);
  return { bytes: archive.bytes, passed: Buffer.concat(passed) };
}

const file = (name: string, size = 10): TarEntry => ({ name, content: Buffer.alloc(size, 'x'), mode: 0o644 });
const refusal = (bytes: Buffer, changed: Partial<ArchiveLimits> = {}) =>
  check(bytes, changed).then(
    () => 'taken',
    (error) => (error instanceof ArchiveRefusedError ? error.message : error),
  );

test('an archive with files, folders, links and deletions is forwarded unchanged', async () => {
  const bytes = tar([
    { name: 'etc/.wh.motd', content: Buffer.alloc(0), mode: 0o644 },
    { name: 'etc/', type: '5', mode: 0o755 },
    file('etc/hosts.allow', 1000),
    { name: 'root/link', type: '2', link: '../../anywhere' },
    { name: 'root/hard', type: '1', link: 'etc/hosts.allow' },
  ]);
  const { bytes: size, passed } = await check(bytes);
  expect(size).toBe(1000);
  expect(passed.equals(bytes)).toBe(true);
});

test.each<[string, TarEntry[]]>([
  ['a name outside of its folders: run/x', [file('run/x')]],
  ['a name outside of its folders: .platform/bin/node', [file('.platform/bin/node')]],
  ['a name that cannot be: etc/../../x', [file('etc/../../x')]],
  ['a name that cannot be: /etc/x', [file('/etc/x')]],
  ['a name that cannot be: root/../etc/shadow', [{ name: 'etc/x', type: '1', link: 'root/../etc/shadow' }]],
  ['a name outside of its folders: proc/1/environ', [{ name: 'etc/x', type: '1', link: 'proc/1/environ' }]],
  ['an entry of a kind that no layer has', [{ name: 'etc/disk', type: '4' }]],
  ['an entry of a kind that no layer has', [{ name: 'etc/null', type: '3' }]],
  ['a name that images keep for themselves: etc/.wh..wh..opq', [file('etc/.wh..wh..opq', 0)]],
  ['a name that images keep for themselves: etc/.wh.x/y', [file('etc/.wh.x/y')]],
  ['a name that images keep for themselves: etc/.wh...', [file('etc/.wh...', 0)]],
  ['more than 5 files', [1, 2, 3, 4, 5, 6].map((number) => file(`etc/${number}`))],
  ['files that are larger than its disk, holes included', [file('etc/a', 6000), file('etc/b', 6000)]],
])('refused: %s', async (message, entries) => {
  expect(await refusal(tar(entries))).toBe(message);
});

test('a whole image has no deletions, and no files of the kernel or the platform', async () => {
  const whole = { folders: null };
  expect(await refusal(tar([file('data/x')]), whole)).toBe('taken');
  expect(await refusal(tar([file('data/.wh.x', 0)]), whole)).toMatch(/^a name that images keep/);
  expect(await refusal(tar([file('proc/x')]), whole)).toMatch(/^a name outside/);
});

const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, '0')}\0`;

/** A raw entry with a correct checksum. */
function raw(name: string, kind: string, content: string): Buffer {
  const header = Buffer.alloc(512);
  header.write(name);
  for (const at of [100, 108, 116]) header.write(octal(0, 7), at);
  header.write(octal(content.length, 11), 124);
  header.write(octal(0, 11), 136);
  header.write(`        ${kind}`, 148);
  header.write('ustar\x0000', 257);
  header.write(
    `${octal(
      header.reduce((sum, byte) => sum + byte, 0),
      6,
    )} `,
    148,
  );
  const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
  body.write(content, 'latin1');
  return Buffer.concat([header, body]);
}

const end = Buffer.alloc(1024);
const record = (key: string, value: string) => {
  const rest = ` ${key}=${value}\n`;
  const length = rest.length + `${rest.length + 2}`.length;
  return `${length}${rest}`;
};
const withRecords = (records: string, name = 'etc/x') =>
  Buffer.concat([raw('PaxHeaders', 'x', records), raw(name, '0', ''), end]);

test('records are checked like the fields of a header', async () => {
  expect(await refusal(withRecords(record('path', 'etc/y')))).toBe('taken');
  expect(await refusal(withRecords(record('SCHILY.xattr.user.note', 'a\nb\0=c')))).toBe('taken');
  expect(await refusal(withRecords(record('path', '../y')))).toBe('a name that cannot be: ../y');
  expect(await refusal(withRecords(record('path', 'run/y')))).toBe('a name outside of its folders: run/y');
  expect(await refusal(withRecords(record('path', 'etc/a') + record('path', 'etc/b')))).toMatch(
    /^a record that no layer/,
  );
  expect(await refusal(withRecords(record('SCHILY.xattr.trusted.overlay.opaque', 'y')))).toMatch(
    /^an attribute of the host/,
  );
  expect(await refusal(withRecords(record('SCHILY.xattr.security.selinux', 'x')))).toMatch(/^an attribute of the host/);
  expect(await refusal(withRecords(record('GNU.sparse.map', '0,1')))).toMatch(/^a record that no layer has/);
  expect(await refusal(withRecords(record('uid', '4294967296')))).toBe('an owner that cannot be');
  expect(await refusal(withRecords('99 path=etc/y\n'))).toBe('records that cannot be read');
  expect(await refusal(withRecords('6 a=b\n'))).toMatch(/^a record that no layer has: a/);
});

test('holes count as bytes: a node writes them when it unpacks the image', async () => {
  const sparse =
    record('GNU.sparse.major', '1') + record('GNU.sparse.minor', '0') + record('GNU.sparse.name', 'etc/holes');
  const of = (size: string) => withRecords(sparse + record('GNU.sparse.realsize', size));
  expect(await refusal(of('9000'))).toBe('taken');
  expect(await refusal(of('10001'))).toBe('files that are larger than its disk, holes included');
  expect(await refusal(of('1e3'))).toBe('a size that is no number');
  expect(await refusal(withRecords(sparse))).toBe('a sparse file that cannot be read');
});

test('an archive that is truncated, continues after its end or is invalid is refused', async () => {
  const whole = tar([file('etc/x', 2000)]);
  const cut = await check(whole.subarray(0, 1500)).catch((error) => error);
  // The connection to the pod may be the cause.
  expect(cut).not.toBeInstanceOf(ArchiveRefusedError);
  expect(cut.message).toBe('the archive was cut off');
  expect(await refusal(Buffer.concat([whole, whole]))).toBe('something after its end');
  expect(await refusal(Buffer.alloc(2048, 'x'))).toBe('a number that cannot be read');
  const changed = Buffer.from(whole);
  changed[0] = 0x66;
  expect(await refusal(changed)).toBe('something that is no archive');
  const records = Buffer.concat([
    raw('PaxHeaders', 'x', record('path', 'etc/y')),
    raw('PaxHeaders', 'x', record('path', 'etc/z')),
  ]);
  expect(await refusal(Buffer.concat([records, raw('etc/x', '0', ''), end]))).toBe('records that cannot be');
});
