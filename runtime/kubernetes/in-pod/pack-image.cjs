// Usage: pack-image.cjs <stage>. Runs in a pod of an image, and writes an archive of the whole image to standard
// output.
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { tarWords } = require('./tar-words.cjs');

const [stage] = process.argv.slice(2);
const notOfImages = /^(\.platform.*|dev|proc|sys)$/s;
const list = `${stage}/image.list`;
const names = fs.readdirSync('/', { encoding: 'latin1' }).filter((name) => !notOfImages.test(name));
fs.writeFileSync(list, Buffer.from(names.map((name) => `${name}\0`).join(''), 'latin1'));
const words = tarWords('/', list).filter((word) => word !== '--no-recursion');
// The kubelet mounts its own files at these paths.
const mounted = ['etc/hosts', 'etc/hostname', 'etc/resolv.conf'].map((name) => `--exclude=${name}`);
const { status } = spawnSync(words[0], ['--anchored', '--no-wildcards', ...mounted, ...words.slice(1)], {
  stdio: ['ignore', 'inherit', 'inherit'],
});
process.exit(status ?? 1);
