// Usage: prepare-disk.cjs <disk> <folder>…
// Runs in an init container with the sandbox's image. Copies the image's folders to a disk that does not have them yet.
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');

const [disk, ...folders] = process.argv.slice(2);
const bin = '/.platform/bin';
const marker = `${disk}/complete`;
if (!fs.existsSync(marker)) {
  // An attempt that did not finish may have left files.
  fs.rmSync(`${disk}/rootfs`, { recursive: true, force: true });
  fs.mkdirSync(`${disk}/rootfs`);
  for (const folder of folders) {
    if (fs.existsSync(`/${folder}`)) run('cp', '-a', '--one-file-system', `/${folder}`, `${disk}/rootfs/`);
    else fs.mkdirSync(`${disk}/rootfs/${folder}`);
    if (folder === 'tmp') fs.chmodSync(`${disk}/rootfs/tmp`, 0o1777);
  }
  run('sync', '-f', disk);
  fs.writeFileSync(marker, '');
  run('sync', '-f', disk);
}

function run(program, ...words) {
  try {
    execFileSync(`${bin}/${program}`, words, { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    fs.writeFileSync('/dev/termination-log', String(error.stderr || error.message).slice(-2000));
    process.exit(1);
  }
}
