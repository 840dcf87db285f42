import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { createGateway, type Gateway, type GatewayOptions } from '../../gateway/gateway.ts';
import { loadPageAssets } from '../../gateway/pages/page-assets.ts';
import { RouteCache } from '../../gateway/route-cache.ts';
import { openCertificates } from '../../gateway/tls/certificates.ts';
import { type LocalCa, openLocalCa } from '../../gateway/tls/local-ca.ts';
import { MemoryRoutes } from './memory-routes.ts';
import { poisonReleasedBytes } from './poisoned-bytes.ts';

export const testDomain = 'sandbox.localhost';

// With this, every test of the gateway fails at a late use of a buffer.
poisonReleasedBytes();

/** A gateway on its own port, with routes in memory. */
export interface StartedGateway {
  gateway: Gateway;
  routes: MemoryRoutes;
  port: number;
  ca: LocalCa;
  /** Ids that were recorded for `last_accessed_at`. */
  accesses: string[][];
  /** Its log, one JSON line each. */
  log: string[];
  stop(): Promise<void>;
}

export async function startGateway(options: Partial<GatewayOptions> = {}): Promise<StartedGateway> {
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'gateway-test-'));
  const routes = new MemoryRoutes();
  const accesses: string[][] = [];
  const log: string[] = [];
  const sink = new Writable({
    write(line, _encoding, done) {
      log.push(String(line));
      done();
    },
  });
  const logger = pino({ level: 'debug' }, sink);
  const files = { certFile: undefined, keyFile: undefined };
  const gateway = createGateway({
    apiUrl: 'http://api.localhost',
    baseDomain: testDomain,
    trustProxy: false,
    routes: new RouteCache(routes, routes),
    certificates: await openCertificates({ dataDir, baseDomain: testDomain, ...files, logger }),
    pages: loadPageAssets(),
    recordAccess: async (sandboxIds) => void accesses.push(sandboxIds),
    logger,
    ...options,
  });
  const { port } = await gateway.listen(0, '127.0.0.1');
  return {
    gateway,
    routes,
    port,
    ca: await openLocalCa(dataDir),
    accesses,
    log,
    async stop() {
      await gateway.close(0);
      rmSync(dataDir, { recursive: true });
    },
  };
}

/** The Host of a sandbox's agent, or of one of its ports. */
export function formatHost(sandboxId: string, port?: number): string {
  return `${port === undefined ? '' : `${port}-`}${sandboxId}.${testDomain}`;
}
