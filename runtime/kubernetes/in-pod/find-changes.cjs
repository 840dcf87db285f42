// What differs between the disk of a sandbox and its image, for `pack-changes.cjs`.
const fs = require('node:fs');

// The kubelet mounts a file of its own there.
const notOfImages = new Set(['etc/hosts', 'etc/hostname', 'etc/resolv.conf']);
// Names longer than this cannot be unpacked by path.
const maxPath = 3800;

/** What no image can hold; the message says what. */
class Refusal extends Error {}

// Names are bytes, one a character.
const bytesOf = (name) => Buffer.from(name, 'latin1');
const look = (name) => fs.lstatSync(bytesOf(name), { bigint: true, throwIfNoEntry: false });
const isFolder = (stat) => stat?.isDirectory() === true;

// In an order that does not change from one time to the next, the first at the end.
const entriesOf = (folder) => fs.readdirSync(bytesOf(folder), { encoding: 'latin1' }).sort().reverse();

/**
 * Walks the disk and calls back with what an image's layer must have.
 * @param {{ disk: string, image: string, folders: string[], maxFiles: number, maxBytes: number }} options
 *   `disk`: the folder with the folders; `image`: the root of the image, which ends with no slash
 * @param {bigint} preparedNs when the disk had nothing but what is in the image
 * @param {{ changed: (name: string) => void, removed: (name: string) => void }} on
 */
function findChanges({ disk, image, folders, maxFiles, maxBytes }, preparedNs, on) {
  let files = 0;
  let bytes = 0n;
  // Iterates where a tree may be deep.
  const left = [...folders]
    .sort()
    .reverse()
    .map((name) => ({ name, inImage: true }));
  for (let next = left.pop(); next; next = left.pop()) {
    const { name, inImage } = next;
    const there = look(`${disk}/${name}`);
    if (!there) continue;
    if (++files > maxFiles) throw new Refusal(`more than ${maxFiles} files`);
    // Sockets are of a process that is not in the image; devices cannot be made in a sandbox.
    if (!there.isFile() && !there.isDirectory() && !there.isSymbolicLink() && !there.isFIFO()) continue;
    const before = inImage ? look(`${image}/${name}`) : undefined;
    if (isChanged(name, there, before)) {
      if (there.isFile()) bytes += there.size;
      if (bytes > BigInt(maxBytes)) throw new Refusal('files that are larger than its disk, holes included');
      on.changed(name);
    }
    if (isFolder(there)) enter(name, isFolder(before));
  }

  function enter(name, inImage) {
    const entries = entriesOf(`${disk}/${name}`);
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
    for (const entry of entriesOf(`${image}/${name}`)) {
      const full = `${name}/${entry}`;
      if (!present.has(entry) && !notOfImages.has(full)) on.removed(full);
    }
  }

  // The time of the last change of a file cannot be set from inside. The rest is for a node whose clock is behind.
  function isChanged(name, there, before) {
    if (!before || there.ctimeNs > preparedNs) return true;
    if (there.mode !== before.mode || there.uid !== before.uid || there.gid !== before.gid) return true;
    if (there.isSymbolicLink()) {
      const target = (root) => fs.readlinkSync(bytesOf(`${root}/${name}`), 'latin1');
      return target(disk) !== target(image);
    }
    return there.isFile() && (there.size !== before.size || there.mtimeNs !== before.mtimeNs);
  }
}

/** For a message: a name may hold anything. */
function shown(name) {
  const text = name.replace(/[^\x20-\x7e]|\\/g, (sign) => `\\x${sign.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return text.length > 200 ? `${text.slice(0, 197)}...` : text;
}

module.exports = { bytesOf, findChanges, Refusal };
