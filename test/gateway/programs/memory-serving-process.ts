import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import v8 from 'node:v8';
import vm from 'node:vm';
import { pino } from 'pino';
import { createGateway, type Gateway } from '../../../gateway/gateway.ts';
import { loadPageAssets } from '../../../gateway/pages/page-assets.ts';
import { serveAsMember } from '../../../gateway/processes/serve.ts';
import { RouteCache } from '../../../gateway/route-cache.ts';
import { openCertificates } from '../../../gateway/tls/certificates.ts';
import { MemoryRoutes } from '../memory-routes.ts';

/**
 * A gateway process whose routes and limits come from its environment: `GATEWAY_ROUTES`, a list of routes, and
 * `GATEWAY_LIMITS`. At SIGUSR2 it throws an uncaught exception. At SIGHUP it collects garbage and logs its open
 * objects, its live memory, and the longest delay of its event loop since the previous log line.
 */
const logger = pino({ name: 'gateway' });
process.on('SIGUSR2', () => {
  throw new Error('asked for by a signal');
});

v8.setFlagsFromString('--expose-gc');
const collectGarbage: () => void = vm.runInNewContext('gc');

const loopDelay = monitorEventLoopDelay({ resolution: 1 });
loopDelay.enable();

async function logState(gateway: Gateway): Promise<void> {
  const longestDelayMs = loopDelay.max / 1e6;
  // Objects that the first collection finalizes are freed by the second one.
  collectGarbage();
  await delay(100);
  collectGarbage();
  const memory = process.memoryUsage();
  logger.info(
    { open: gateway.stats(), liveBytes: memory.heapUsed + memory.external, longestDelayMs, ...memory },
    'state',
  );
  loopDelay.reset();
}

await serveAsMember(logger, async ({ counts, ticketKeys }) => {
  const routes = new MemoryRoutes();
  for (const route of JSON.parse(process.env.GATEWAY_ROUTES!)) routes.set(route);
  const baseDomain = 'sandbox.localhost';
  const files = { certFile: undefined, keyFile: undefined };
  const gateway = createGateway({
    apiUrl: 'http://api.localhost',
    baseDomain,
    trustProxy: false,
    routes: new RouteCache(routes, routes),
    certificates: await openCertificates({ dataDir: process.env.GATEWAY_DATA_DIR!, baseDomain, ...files, logger }),
    pages: loadPageAssets(),
    limits: JSON.parse(process.env.GATEWAY_LIMITS!),
    counts,
    ticketKeys,
    recordAccess: async () => undefined,
    logger,
  });
  process.on('SIGHUP', () => void logState(gateway));
  return {
    listenOn: (socket) => gateway.listenOn(socket),
    close: (drainMs) => gateway.close(drainMs),
  };
});
