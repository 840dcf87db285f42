// Runs in a pod of an image as the image's user. Writes the facts that `image-facts.ts` reads to the termination
// message.
const fs = require('node:fs');

// Folders of the kernel and the platform, and folders that are empty at each start.
const notOnDisk = new Set(['.platform', 'dev', 'proc', 'run', 'sys']);
// These folders are always on the disk, so that files in them survive a restart.
const always = ['etc', 'home', 'mnt', 'opt', 'root', 'srv', 'tmp', 'usr', 'var'];
const present = fs
  .readdirSync('/', { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/.test(entry.name))
  .map((entry) => entry.name);
const folders = [...new Set([...present, ...always])].filter((name) => !notOnDisk.has(name)).sort();
const facts = { folders, user: `${process.getuid()}:${process.getgid()}`, cwd: process.cwd() };
fs.writeFileSync('/dev/termination-log', JSON.stringify(facts));
