import { pino } from 'pino';
import { logDestination } from '../config/log-destination.ts';
import { deriveSecrets } from '../config/secrets.ts';
import { loadSettings } from '../config/settings.ts';
import { createOrm } from '../db/orm.ts';
import { recordAccess } from '../db/repositories/sandbox-routes.ts';
import { createGateway } from './gateway.ts';
import { serveAsMember } from './processes/serve.ts';
import { RouteCache } from './route-cache.ts';
import { PostgresRouteChanges } from './route-changes.ts';
import { createSandboxRouteSource } from './sandbox-route-source.ts';
import { openCertificates } from './tls/certificates.ts';

/** One of the gateway's processes. Each keeps its own cache of routes; Postgres notifies all of them of changes. */
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'gateway' }, logDestination());

await serveAsMember(logger, async ({ counts, ticketKeys }) => {
  const baseDomain = settings.PLATFORM_BASE_DOMAIN.toLowerCase();
  const certificates = await openCertificates({
    dataDir: settings.PLATFORM_DATA_DIR,
    baseDomain,
    certFile: settings.PLATFORM_TLS_CERT_FILE,
    keyFile: settings.PLATFORM_TLS_KEY_FILE,
    logger,
  });
  const orm = await createOrm(settings.DATABASE_URL, settings.DATABASE_POOL_SIZE);
  const changes = new PostgresRouteChanges({ databaseUrl: settings.DATABASE_URL, logger });
  const routes = new RouteCache(createSandboxRouteSource(orm, deriveSecrets(settings)), changes);
  changes.start();
  const gateway = createGateway({
    baseDomain,
    trustProxy: settings.PLATFORM_TRUST_PROXY,
    routes,
    certificates,
    limits: {
      maxConnections: settings.PLATFORM_GATEWAY_MAX_CONNECTIONS,
      maxConnectionsPerClient: settings.PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_CLIENT,
      maxRequestsPerClient: settings.PLATFORM_GATEWAY_MAX_REQUESTS_PER_CLIENT,
      maxRequestsPerSandbox: settings.PLATFORM_GATEWAY_MAX_REQUESTS_PER_SANDBOX,
    },
    counts,
    ticketKeys,
    recordAccess: (sandboxIds, minute) => recordAccess(orm.em, sandboxIds, minute),
    logger,
  });
  return {
    listenOn: (socket) => gateway.listenOn(socket),
    close: async (drainMs) => {
      await gateway.close(drainMs);
      await changes.close();
      await orm.close();
    },
  };
});
