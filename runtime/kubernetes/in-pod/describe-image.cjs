// Runs in a pod of an image, as the image's user: writes what `image-facts.ts` reads to the termination message.
const fs = require('node:fs');

// The kernel's, the node's, and what is new at each start.
const notOnDisk = new Set(['.platform', 'dev', 'proc', 'run', 'sys']);
// These are on the disk in any case, so that what is written there stays.
const always = ['etc', 'home', 'mnt', 'opt', 'root', 'srv', 'tmp', 'usr', 'var'];
const present = fs
  .readdirSync('/', { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/.test(entry.name))
  .map((entry) => entry.name);
const folders = [...new Set([...present, ...always])].filter((name) => !notOnDisk.has(name)).sort();
const facts = { folders, user: `${process.getuid()}:${process.getgid()}`, cwd: process.cwd() };
fs.writeFileSync('/dev/termination-log', JSON.stringify(facts));
