import fs from 'node:fs';
import path from 'node:path';
import type { LastHopRole } from '../../domain/hosts/last-hop.ts';
import { LastHopAuthority } from '../../gateway/last-hop/authority.ts';

/** Files that an operator makes for several machines, in a folder of the test. */
export interface LastHopFiles {
  /** For `PLATFORM_LAST_HOP_CA_DIR`. */
  caDir: string;
  /** Writes the join token of a machine. @returns the file's path */
  token(role: LastHopRole, name: string): string;
}

export async function makeLastHopFiles(folder: string): Promise<LastHopFiles> {
  const caDir = path.join(folder, 'last-hop-ca');
  const authority = await LastHopAuthority.open(caDir);
  return {
    caDir,
    token(role, name) {
      const file = path.join(folder, `${role}-${name}.token`);
      fs.writeFileSync(file, authority.joinToken({ role, name }), { mode: 0o600 });
      return file;
    },
  };
}
