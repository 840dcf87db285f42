import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { packLayer } from '../../runtime/images/pack-layer.ts';
import { layerInFile, unpackLayers } from '../../runtime/images/unpack-layers.ts';
import { writeLayer } from '../../runtime/images/write-layer.ts';
import { LayerArchive } from '../../runtime/kubernetes/layer-archive.ts';

/**
 * The changes of a disk against its image, found by the scripts that the pod of a build runs. Here they run on two
 * trees of this machine, with this machine's tar.
 */
const inPod = path.resolve(import.meta.dirname, '../../runtime/kubernetes/in-pod');
const load = createRequire(import.meta.url);
const { findChanges, Refusal } = load(`${inPod}/find-changes.cjs`);
const { createDeletion } = load(`${inPod}/deletion-entry.cjs`);
const { tarWords } = load(`${inPod}/tar-words.cjs`);

const folders = ['etc', 'opt', 'srv'];
const bounds = { maxFiles: 1000, maxBytes: 1e9 };
let folder: string;
let image: string;
let disk: string;

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'disk-changes-'));
  image = path.join(folder, 'image');
  disk = path.join(folder, 'disk');
  inside(
    folder,
    `mkdir image disk image/etc image/opt image/opt/kept image/opt/gone; cd image
    echo one >etc/one; echo two >etc/two; echo name >etc/hostname; ln -s one etc/link; echo a >opt/gone/a; echo b >opt/kept/b
    echo x >opt/turns; mkdir opt/becomes; echo y >opt/becomes/y; ln opt/kept/b opt/kept/c; chown 1000:1000 etc/two; chmod 4755 etc/two
    touch -d @1000000000 etc/one`,
  );
});
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

const inside = (at: string, script: string) =>
  execFileSync('sh', ['-ec', script], { cwd: at, encoding: 'utf8', maxBuffer: 1e8 });

/** Does what `prepare-disk.cjs` does. Returns when the kernel's time stamps have advanced. */
async function prepare(): Promise<bigint> {
  inside(folder, 'cp -a image/. disk/; mkdir disk/srv; echo >complete');
  const at = fs.statSync(`${folder}/complete`, { bigint: true }).mtimeNs;
  const probe = path.join(folder, 'probe');
  do {
    fs.writeFileSync(probe, '');
    await new Promise((next) => setTimeout(next, 1));
  } while (fs.statSync(probe, { bigint: true }).ctimeNs <= at);
  return at;
}

function changesSince(at: bigint, of: Partial<typeof bounds> = {}) {
  const found = { changed: [] as string[], removed: [] as string[] };
  findChanges({ disk, image, folders, ...bounds, ...of }, at, {
    changed: (name: string) => found.changed.push(name),
    removed: (name: string) => found.removed.push(name),
  });
  return { changed: found.changed.sort(), removed: found.removed.sort() };
}

test('a disk that was only prepared has no changes except the folders that the image lacks', async () => {
  expect(changesSince(await prepare())).toEqual({ changed: ['srv'], removed: [] });
});

test('changes, additions and removals are found, also with an unchanged size and time', async () => {
  const at = await prepare();
  inside(
    disk,
    `printf 'ONE\\n' >etc/one; touch -d @1000000000 etc/one; rm etc/two; ln -sf two etc/link; rm -r opt/gone; echo changed >etc/hostname
    rm opt/turns; mkdir opt/turns; echo in >opt/turns/in; rm -r opt/becomes; echo file >opt/becomes; ln opt/kept/b opt/kept/d; chmod 700 srv`,
  );
  expect(changesSince(at)).toEqual({
    changed: [
      'etc',
      'etc/link',
      'etc/one',
      'opt',
      'opt/becomes',
      'opt/kept',
      'opt/kept/b',
      'opt/kept/c',
      'opt/kept/d',
      'opt/turns',
      'opt/turns/in',
      'srv',
    ],
    removed: ['etc/two', 'opt/gone'],
  });
});

test('changes of size, time, mode or target are found also on a node whose clock is slow', async () => {
  await prepare();
  inside(
    disk,
    'echo longer than before >etc/one; chmod 600 etc/two; ln -sf two etc/link; echo new >opt/new; rm opt/kept/b',
  );
  const { changed, removed } = changesSince(BigInt(Date.now() + 3_600_000) * 1_000_000n);
  expect(changed).toEqual(['etc/link', 'etc/one', 'etc/two', 'opt/new', 'srv']);
  expect(removed).toEqual(['opt/kept/b']);
});

test('the layer over the image is the tree of the disk: modes, owners, links, attributes, holes, odd names', async () => {
  const at = await prepare();
  inside(
    disk,
    `rm etc/two; rm -r opt/gone opt/becomes; echo file >opt/becomes; rm opt/turns; mkdir opt/turns; echo in >opt/turns/in
    cd opt; echo content >file; chown 1234:4321 file; chmod 2750 file; ln file hard; mkfifo pipe; truncate -s 50M holes; printf end >>holes
    printf x >"$(printf 'new\\nline')"; mkdir -p "$(printf 'n%.0s' $(seq 200))/$(printf 'm%.0s' $(seq 200))"
    python3 -c "
import os, struct, socket
os.setxattr('file', 'user.note', b'a\\\\nb')
open('cap', 'w').close(); os.setxattr('cap', 'security.capability', struct.pack('<IIIII', 0x02000001, 1 << 13, 0, 0, 0))
open(b'byte\\\\xff', 'w').close()
socket.socket(socket.AF_UNIX).bind('socket')
"`,
  );
  const names: Buffer[] = [];
  const deletions: Buffer[] = [];
  findChanges({ disk, image, folders, ...bounds }, at, {
    changed: (name: string) => names.push(Buffer.from(`${name}\0`, 'latin1')),
    removed: (name: string) => deletions.push(createDeletion(Buffer.from(name, 'latin1'))),
  });
  const list = path.join(folder, 'list');
  fs.writeFileSync(list, Buffer.concat(names));
  const archive = new LayerArchive({ ...bounds, folders: new Set(folders) });
  archive.write(Buffer.concat(deletions));
  spawn('tar', tarWords(disk, list).slice(1), { stdio: ['ignore', 'pipe', 'inherit'] }).stdout.pipe(archive);
  const changes = await writeLayer(archive, path.join(folder, 'changes.layer'));
  const below = await packLayer({ folder: image, changes: false }, path.join(folder, 'image.layer'));
  const tree = path.join(folder, 'tree');
  await unpackLayers(
    [below, changes].map((layer) => layerInFile(layer.file, layer)),
    tree,
    { maxFiles: 1000, maxBytes: 1e8 },
  );
  const except = '! -type s ! -path ./srv ! -path ./etc/hostname';
  const listing = (at: string) =>
    inside(
      at,
      `find . -mindepth 1 ${except} -printf '%P %y %m %U %G %n %l %Ts\\0' | LC_ALL=C sort -z | tr '\\0' '\\n' | cat -v
      find . -type f ${except} -print0 | LC_ALL=C sort -z | xargs -0 sha256sum`,
    );
  expect(listing(tree)).toBe(listing(disk));
  expect(fs.statSync(`${tree}/opt/hard`).ino).toBe(fs.statSync(`${tree}/opt/file`).ino);
  expect(fs.statSync(`${tree}/opt/holes`).blocks * 512).toBeLessThan(1024 ** 2);
  const attributes =
    'import os; print(os.getxattr("file", "user.note"), os.getxattr("cap", "security.capability").hex())';
  expect(execFileSync('python3', ['-c', attributes], { cwd: `${tree}/opt`, encoding: 'utf8' }).trim()).toBe(
    `b'a\\nb' 0100000200200000000000000000000000000000`,
  );
}, 60_000);

test('a long name that is removed is removed', async () => {
  const [long, odd] = ['l'.repeat(240), 'o\xff'];
  for (const name of [long, odd]) fs.writeFileSync(Buffer.from(`${image}/opt/${name}`, 'latin1'), 'x');
  const at = await prepare();
  for (const name of [long, odd]) fs.rmSync(Buffer.from(`${disk}/opt/${name}`, 'latin1'));
  const { removed } = changesSince(at);
  expect(removed).toEqual([`opt/${long}`, `opt/${odd}`]);
  const archive = new LayerArchive({ ...bounds, folders: new Set(folders) });
  const written = writeLayer(archive, path.join(folder, 'changes.layer'));
  for (const name of removed) archive.write(createDeletion(Buffer.from(name, 'latin1')));
  archive.end(Buffer.alloc(1024));
  const [below, changes] = [
    await packLayer({ folder: image, changes: false }, path.join(folder, 'image.layer')),
    await written,
  ];
  const tree = path.join(folder, 'tree');
  await unpackLayers(
    [below, changes].map((layer) => layerInFile(layer.file, layer)),
    tree,
    { maxFiles: 1000, maxBytes: 1e8 },
  );
  expect(fs.readdirSync(`${tree}/opt`).sort()).toEqual(['becomes', 'gone', 'kept', 'turns']);
});

test.each([
  ['more than 20 files', 'for n in $(seq 30); do echo >opt/$n; done', { maxFiles: 20 }],
  ['files that are larger than its disk, holes included', 'truncate -s 1T opt/holes', {}],
  ['a name that begins with .wh., which images keep for themselves: etc/.wh.one', 'echo >etc/.wh.one', {}],
  ['a path that is too long: ', 'cd opt; for n in $(seq 19); do mkdir "$(printf "d%.0s" $(seq 200))"; cd d*; done', {}],
])('a disk that exceeds the limits of a layer is refused: %s', async (message, script, of) => {
  const at = await prepare();
  inside(disk, script);
  const refused = () => changesSince(at, of);
  expect(refused).toThrow(Refusal);
  expect(refused).toThrow(message);
});

test('a link out of the image is not followed', async () => {
  inside(image, 'ln -s /etc opt/way');
  const at = await prepare();
  inside(disk, 'rm opt/way; mkdir opt/way; echo own >opt/way/passwd');
  expect(changesSince(at)).toEqual({ changed: ['opt', 'opt/way', 'opt/way/passwd', 'srv'], removed: [] });
});
