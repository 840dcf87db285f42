import { X509Certificate } from 'node:crypto';
import { pino } from 'pino';
import { openSecrets } from '../db/open-secrets.ts';
import { createOrm, poolCounts } from '../db/orm.ts';
import { recordAccess } from '../db/sandboxes/sandbox-routes.ts';
import { logDestination } from '../platform/config/log-destination.ts';
import { apiUrl, innerApiUrl } from '../platform/config/public-urls.ts';
import { loadSettings } from '../platform/config/settings.ts';
import { createProcessRegistry } from '../platform/monitoring/process-metrics.ts';
import { showCertificates } from './certificate-metrics.ts';
import { createGateway } from './gateway.ts';
import { countRequests } from './gateway-metrics.ts';
import { openLastHops } from './last-hop/last-hops.ts';
import { openLastHopEnd } from './last-hop-end.ts';
import { loadPageAssets } from './pages/page-assets.ts';
import { serveAsMember } from './processes/serve.ts';
import { RouteCache } from './route-cache.ts';
import { PostgresRouteChanges } from './route-changes.ts';
import { createSandboxRouteSource } from './sandbox-route-source.ts';
import { openCertificates } from './tls/certificates.ts';

/** One of the gateway's processes. Each has its own cache of routes, and Postgres notifies all of them of changes. */
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'gateway' }, logDestination());

await serveAsMember(logger, async (membership) => {
  const { counts, ticketKeys } = membership;
  const baseDomain = settings.PLATFORM_BASE_DOMAIN.toLowerCase();
  const certificates = await openCertificates({
    dataDir: settings.PLATFORM_DATA_DIR,
    baseDomain,
    certFile: settings.PLATFORM_TLS_CERT_FILE,
    keyFile: settings.PLATFORM_TLS_KEY_FILE,
    logger,
  });
  const orm = await createOrm(settings.DATABASE_URL, settings.DATABASE_POOL_SIZE);
  const { secrets, stopFollowing } = await openSecrets(orm, settings, logger);
  const registry = createProcessRegistry(() => poolCounts(orm));
  membership.collectMetrics = () => registry.getMetricsAsJSON();
  const changes = new PostgresRouteChanges({ databaseUrl: settings.DATABASE_URL, logger });
  const routes = new RouteCache(createSandboxRouteSource(orm, secrets), changes);
  changes.start();
  const lastHops = await openLastHops(settings, { orm, logger });
  const lastHopEnd = await openLastHopEnd(settings, { orm, routes, registry, logger });
  showCertificates(registry, {
    gateway: () => new X509Certificate(certificates.current.cert).validToDate,
    ...(lastHops && { last_hop_gateway: lastHops.expiresAt }),
    ...(lastHopEnd && { last_hop_host: lastHopEnd.expiresAt }),
  });
  const gateway = createGateway({
    baseDomain,
    apiUrl: apiUrl(settings),
    trustProxy: settings.PLATFORM_TRUST_PROXY,
    api: {
      url: innerApiUrl(settings),
      clientAddressKeys: secrets.clientAddressKeys,
      maxRequestsPerClient: settings.PLATFORM_API_MAX_CONNECTIONS_PER_CLIENT,
    },
    routes,
    tunnels: lastHops?.tunnels ?? null,
    certificates,
    pages: loadPageAssets(),
    limits: {
      maxConnections: settings.PLATFORM_GATEWAY_MAX_CONNECTIONS,
      maxConnectionsPerClient: settings.PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_CLIENT,
      maxRequestsPerClient: settings.PLATFORM_GATEWAY_MAX_REQUESTS_PER_CLIENT,
      maxRequestsPerSandbox: settings.PLATFORM_GATEWAY_MAX_REQUESTS_PER_SANDBOX,
    },
    counts,
    ticketKeys,
    recordAccess: (sandboxIds, minute) => recordAccess(orm.em, sandboxIds, minute),
    onRequestEnd: countRequests(registry, () => gateway.stats()),
    logger,
  });
  return {
    listenOn: (socket) => gateway.listenOn(socket),
    close: async (drainMs) => {
      await Promise.all([gateway.close(drainMs), lastHopEnd?.close(drainMs)]);
      await lastHops?.stop();
      await changes.close();
      stopFollowing();
      await orm.close();
    },
  };
});
