import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import type { SandboxId } from '../../domain/ids.ts';
import { createGateway } from '../../gateway/gateway.ts';
import { loadPageAssets } from '../../gateway/pages/page-assets.ts';
import { RouteCache } from '../../gateway/route-cache.ts';
import { openCertificates } from '../../gateway/tls/certificates.ts';
import { benchHostId, tunnelsThrough } from '../last-hop/credentials.ts';

/**
 * The gateway with one route and without a database. `one-sandbox-gateway.ts <agent port> [<folder of an authority>
 * <port of a last hop>]`. With the optional arguments it reaches the sandbox through a tunnel. Prints its own port.
 */
const agentPort = Number(process.argv[2]);
const [, , , authorityFolder, lastHopPort] = process.argv;
const logger = pino({ level: 'warn' }, pino.destination(2));
const dataDir = mkdtempSync(path.join(os.tmpdir(), 'bench-gateway-'));
process.once('exit', () => rmSync(dataDir, { recursive: true }));
process.once('SIGTERM', () => process.exit(0));
const baseDomain = 'sandbox.localhost';
const route = {
  sandboxId: 'sbx-bench' as SandboxId,
  status: 'running',
  hostId: authorityFolder ? benchHostId : null,
  address: '127.0.0.1',
  agentPort,
  secure: false,
  publicPorts: false,
  accessToken: null,
  platformToken: '',
  isLocked: false,
  ports: [],
};
const changes = { live: true, onChange: () => undefined, onLiveChange: () => undefined };
const gateway = createGateway({
  apiUrl: 'http://api.localhost',
  baseDomain,
  trustProxy: false,
  routes: new RouteCache({ find: async (sandboxId) => (sandboxId === route.sandboxId ? route : null) }, changes),
  certificates: await openCertificates({ dataDir, baseDomain, certFile: undefined, keyFile: undefined, logger }),
  pages: loadPageAssets(),
  ...(authorityFolder && { tunnels: await tunnelsThrough(authorityFolder, Number(lastHopPort)) }),
  recordAccess: async () => undefined,
  logger,
});
console.log((await gateway.listen(0, '127.0.0.1')).port);
