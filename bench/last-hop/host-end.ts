import { pino } from 'pino';
import type { SandboxId } from '../../domain/ids.ts';
import { LastHopServer } from '../../gateway/last-hop/server.ts';
import { benchHostId, createCredential, hostPlaces, noRevocations } from './credentials.ts';

/** The last hop of a host with one sandbox. `host-end.ts <folder of the authority>`; prints its port. */
process.once('SIGTERM', () => process.exit(0));
const identity = { role: 'host', name: benchHostId } as const;
const current = await createCredential(identity, process.argv[2]!);
const sandbox = { sandboxId: 'sbx-bench' as SandboxId, hostId: benchHostId, status: 'running', address: '127.0.0.1' };
const server = new LastHopServer({
  credential: { identity, current, onNewer: () => undefined },
  revocations: noRevocations,
  routes: { find: async () => sandbox, dropUnlessNew: () => false, onChange: () => undefined },
  hosts: hostPlaces(null),
  logger: pino({ level: 'warn' }, pino.destination(2)),
});
console.log((await server.listen(0)).port);
