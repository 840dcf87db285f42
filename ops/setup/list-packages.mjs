import { packagesFor } from '../../platform/config/programs.mjs';

/**
 * `node ops/setup/list-packages.mjs host|start|test|faults [debian|fedora|suse|arch]`: prints the packages for a
 * purpose, for the distribution's package manager.
 */
const [purpose, family] =
  /** @type {[import('../../platform/config/programs.mjs').Purpose, import('../../platform/config/programs.mjs').Family?]} */ (
    process.argv.slice(2)
  );
console.log(packagesFor(purpose, family).join(' '));
