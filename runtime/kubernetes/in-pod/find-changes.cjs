// Finds the differences between the disk of a sandbox and its image, for `pack-changes.cjs`.
const fs = require('node:fs');

// The kubelet mounts its own files at these paths.
const notOfImages = new Set(['etc/hosts', 'etc/hostname', 'etc/resolv.conf']);
// Names longer than this cannot be unpacked by path.
const maxPath = 3800;

/** The disk has something that an image cannot contain. The message says what. */
class Refusal extends Error {}

// Names are latin1 strings: each character is one byte.
const toBytes = (name) => Buffer.from(name, 'latin1');
const stat = (name) => fs.lstatSync(toBytes(name), { bigint: true, throwIfNoEntry: false });
const isFolder = (stat) => stat?.isDirectory() === true;

// The entries in reverse order, so that `pop` returns the first one. The order is the same in each run.
const listEntries = (folder) => fs.readdirSync(toBytes(folder), { encoding: 'latin1' }).sort().reverse();

/**
 * Walks the disk and reports each change and each deletion that a layer must contain.
 * @param {{ disk: string, image: string, folders: string[], maxFiles: number, maxBytes: number }} options
 *   `disk`: the folder on the disk that contains `folders`; `image`: the root of the image, without a slash at the end
 * @param {bigint} preparedNs the time when the image had been copied to the disk
 * @param {{ changed: (name: string) => void, removed: (name: string) => void }} on
 */
function findChanges({ disk, image, folders, maxFiles, maxBytes }, preparedNs, on) {
  let files = 0;
  let bytes = 0n;
  // A loop instead of recursion, because a tree may be deep.
  const left = [...folders]
    .sort()
    .reverse()
    .map((name) => ({ name, inImage: true }));
  for (let next = left.pop(); next; next = left.pop()) {
    const { name, inImage } = next;
    const there = stat(`${disk}/${name}`);
    if (!there) continue;
    if (++files > maxFiles) throw new Refusal(`more than ${maxFiles} files`);
    // A socket is useless without its process, which is not in the image. Devices cannot be made in a sandbox.
    if (!there.isFile() && !there.isDirectory() && !there.isSymbolicLink() && !there.isFIFO()) continue;
    const before = inImage ? stat(`${image}/${name}`) : undefined;
    if (isChanged(name, there, before)) {
      if (there.isFile()) bytes += there.size;
      if (bytes > BigInt(maxBytes)) throw new Refusal('files that are larger than its disk, holes included');
      on.changed(name);
    }
    if (isFolder(there)) enter(name, isFolder(before));
  }

  function enter(name, inImage) {
    const entries = listEntries(`${disk}/${name}`);
    for (const entry of entries) {
      const full = `${name}/${entry}`;
      if (notOfImages.has(full)) continue;
      if (entry.startsWith('.wh.')) {
        throw new Refusal(`a name that begins with .wh., which images keep for themselves: ${shown(full)}`);
      }
      if (full.length > maxPath) throw new Refusal(`a path that is too long: ${shown(full)}`);
      if (left.length + files > maxFiles) throw new Refusal(`more than ${maxFiles} files`);
      left.push({ name: full, inImage });
    }
    if (!inImage) return;
    const present = new Set(entries);
    for (const entry of listEntries(`${image}/${name}`)) {
      const full = `${name}/${entry}`;
      if (!present.has(entry) && !notOfImages.has(full)) on.removed(full);
    }
  }

  // A sandbox cannot set the ctime of a file. The other comparisons are for a node whose clock is behind.
  function isChanged(name, there, before) {
    if (!before || there.ctimeNs > preparedNs) return true;
    if (there.mode !== before.mode || there.uid !== before.uid || there.gid !== before.gid) return true;
    if (there.isSymbolicLink()) {
      const target = (root) => fs.readlinkSync(toBytes(`${root}/${name}`), 'latin1');
      return target(disk) !== target(image);
    }
    return there.isFile() && (there.size !== before.size || there.mtimeNs !== before.mtimeNs);
  }
}

/** Makes a name printable for a message, because names may contain any bytes. */
function shown(name) {
  const text = name.replace(/[^\x20-\x7e]|\\/g, (sign) => `\\x${sign.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return text.length > 200 ? `${text.slice(0, 197)}...` : text;
}

module.exports = { toBytes, findChanges, Refusal };
