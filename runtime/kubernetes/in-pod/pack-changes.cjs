// Usage: pack-changes.cjs <look|pack> <disk> <stage> <most files> <most bytes> <folder>… Runs in a pod of a sandbox's
// image with the sandbox's disk mounted read-only. Packs the differences between them. `look` only scans, so that
// the kernel has cached the names before the sandbox is stopped. `pack` writes the archive to `<stage>/changes.tar`.
// The exit code is 3 if the disk has something that an image cannot contain; standard error says what.
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { toBytes, findChanges, Refusal } = require('./find-changes.cjs');
const { createDeletion } = require('./deletion-entry.cjs');
const { tarWords } = require('./tar-words.cjs');

const [act, disk, stage, maxFiles, maxBytes, ...folders] = process.argv.slice(2);
const bufferBytes = 1 << 20;

try {
  const root = `${disk}/rootfs`;
  const prepared = fs.statSync(`${disk}/complete`, { bigint: true }).mtimeNs;
  const of = { disk: root, image: '', folders, maxFiles: Number(maxFiles), maxBytes: Number(maxBytes) };
  if (act === 'look') {
    findChanges(of, prepared, { changed: () => {}, removed: () => {} });
  } else {
    const archive = fs.openSync(`${stage}/changes.tar`, 'w');
    const [names, deletions] = [writer(fs.openSync(`${stage}/changes.list`, 'w')), writer(archive)];
    findChanges(of, prepared, {
      changed: (name) => names.write(toBytes(`${name}\0`)),
      removed: (name) => deletions.write(createDeletion(toBytes(name))),
    });
    names.flush();
    deletions.flush();
    // Deletions come first, because an unpacker may also apply a deletion to earlier entries of the same layer.
    const words = tarWords(root, `${stage}/changes.list`);
    const { status, stderr } = spawnSync(words[0], words.slice(1), { stdio: ['ignore', archive, 'pipe'] });
    if (status !== 0) throw new Error(`tar ended with ${status}: ${stderr}`);
  }
} catch (error) {
  process.stderr.write(error.message);
  process.exit(error instanceof Refusal ? 3 : 1);
}

function writer(file) {
  let parts = [];
  let bytes = 0;
  const flush = () => {
    const whole = Buffer.concat(parts);
    for (let at = 0; at < whole.length; ) at += fs.writeSync(file, whole, at);
    [parts, bytes] = [[], 0];
  };
  return {
    flush,
    write(part) {
      parts.push(part);
      bytes += part.length;
      if (bytes >= bufferBytes) flush();
    },
  };
}
