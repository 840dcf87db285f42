import { programsFor } from '../../platform/config/programs.mjs';

/**
 * `node ops/setup/list-packages.mjs host|start|test|faults`: prints the Debian packages for a purpose, for `apt-get
 * install`.
 */
const purpose = /** @type {import('../../platform/config/programs.mjs').Purpose} */ (process.argv[2]);
console.log([...new Set(Object.values(programsFor(purpose)))].sort().join(' '));
