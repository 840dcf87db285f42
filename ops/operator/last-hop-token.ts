import path from 'node:path';
import { parseArgs } from 'node:util';
import { LastHopAuthority } from '../../gateway/last-hop/authority.ts';

/**
 * `node ops/operator/last-hop-token.ts --role host|gateway --name …`: prints the join token of one machine. Run it
 * where the authority's folder is. Makes the authority if there is none.
 */
const { PLATFORM_LAST_HOP_CA_DIR: folder } = process.env;
const { role, name } = parseArgs({ options: { role: { type: 'string' }, name: { type: 'string' } } }).values;
if (!folder || !name || name.length > 128 || (role !== 'host' && role !== 'gateway')) {
  console.error('Needs PLATFORM_LAST_HOP_CA_DIR, --role host or gateway, and --name of at most 128 characters.');
  process.exit(1);
}
const authority = await LastHopAuthority.open(path.resolve(folder));
console.log(authority.joinToken({ role, name }));
