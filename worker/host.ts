import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { toSpec } from '../activities/sandboxes/spec.ts';
import { loadPlans } from '../db/billing/plans.ts';
import { acquireHostLock } from '../db/hosts/host-lock.ts';
import {
  askForHostWatch,
  lastAliveAt,
  offerUdpPorts,
  recordLastHop,
  recordSandboxNetwork,
  rejoin,
} from '../db/hosts/hosts.ts';
import { openSecrets } from '../db/open-secrets.ts';
import { createOrm, poolCounts } from '../db/orm.ts';
import { innerLoopbackAddress } from '../domain/outbound-addresses.ts';
import { PlatformRegistry } from '../integrations/registry/platform-registry.ts';
import { freeLoopbackPort } from '../platform/config/free-port.ts';
import { logDestination } from '../platform/config/log-destination.ts';
import { namedServices, ownServices } from '../platform/config/own-services.ts';
import { proxyEnvironment, sandboxProxy } from '../platform/config/sandbox-proxy.ts';
import { reportReady } from '../platform/config/service-manager.ts';
import { loadSettings } from '../platform/config/settings.ts';
import { stopSignal } from '../platform/config/stop-signal.ts';
import { turnSettings } from '../platform/config/turn-settings.ts';
import { createHostGauges } from '../platform/monitoring/host-gauges.ts';
import { createProcessRegistry } from '../platform/monitoring/process-metrics.ts';
import { SandboxMetrics } from '../platform/monitoring/sandbox-metrics.ts';
import { createTemporalClient } from '../platform/temporal/client.ts';
import { temporalConnectionOptions } from '../platform/temporal/connection-options.ts';
import { prepareHostDriver } from '../runtime/choose-driver.ts';
import { hasSpaceToAdmit, readDiskSpace } from '../runtime/disk/disk-space.ts';
import { createHostWorkers } from './host-worker.ts';
import { CapacityReporter } from './hosts/capacity-reporter.ts';
import { DiskWatch } from './hosts/disk-watch.ts';
import { describeHost, readHostId } from './hosts/identity.ts';
import { HostLease } from './hosts/lease.ts';
import { holdDataFolder, requireOwnDataFolder } from './hosts/own-data-folder.ts';
import { HostReconciliation, whenGivenUp } from './hosts/reconciliation.ts';
import { serverAddresses } from './hosts/server-addresses.ts';
import { logTemporalThrough } from './logging.ts';
import { DirectWorkListener } from './sandboxes/direct-work-listener.ts';
import { SandboxFacts } from './sandboxes/facts.ts';
import { createLifeReports } from './sandboxes/life-reports.ts';
import { TurnCredentialService, turnEnvironment } from './sandboxes/turn-credential-service.ts';
import { BuiltinImageKeeper } from './templates/builtin-image-keeper.ts';
import { PooledImages } from './templates/pooled-images.ts';
import { MetricsSampler } from './usage/metrics-sampler.ts';
import { serveWorkerMetrics } from './worker-metrics.ts';

/** The host worker's process, one on each machine that runs sandboxes. Its sandboxes continue when the process ends. */
// Users of sandboxes read folders that the driver makes. Files with secrets get their modes explicitly.
process.umask(0o022);
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'host' }, logDestination());
const sdkMetricsPort = settings.PLATFORM_HOST_METRICS_PORT ? await freeLoopbackPort(innerLoopbackAddress) : null;
logTemporalThrough(logger, sdkMetricsPort);
const plans = loadPlans(settings.PLATFORM_PLANS_FILE);
const hostId = readHostId(settings);
const turn = turnSettings(settings);
const proxy = sandboxProxy(settings);
const [orm, connection, openDriver] = await Promise.all([
  createOrm(settings.DATABASE_URL, settings.DATABASE_POOL_SIZE),
  NativeConnection.connect(temporalConnectionOptions(settings)),
  prepareHostDriver(settings, {
    hostServicePorts: turn ? [turn.servicePort] : [],
    openServers: [
      ...(turn ? await serverAddresses('TURN server', turn.internalAddress, logger) : []),
      ...(proxy ? await serverAddresses('proxy', proxy, logger) : []),
    ],
    ownServices: () => ownServices(namedServices(settings)),
    logger,
  }),
]);
const { secrets, stopFollowing } = await openSecrets(orm, settings, logger);
if (settings.PLATFORM_DRIVER !== 'kubernetes') await holdDataFolder(settings.PLATFORM_DATA_DIR);
// Between the end of one worker and the start of the next, no process serves the host's queue. So a waiting worker does
// its slow preparations first. The chart ends the active worker when this file exists.
if (settings.PLATFORM_DRIVER === 'kubernetes') {
  mkdirSync(settings.PLATFORM_DATA_DIR, { recursive: true });
  writeFileSync(path.join(settings.PLATFORM_DATA_DIR, 'host-worker-prepared'), '');
}
// The host of a cluster belongs to no machine, so a process elsewhere in the cluster could act as this host at the same
// time.
const hostLock =
  settings.PLATFORM_DRIVER === 'kubernetes'
    ? await acquireHostLock({
        databaseUrl: settings.DATABASE_URL,
        hostId,
        onWait: () => logger.info({ hostId }, 'another process acts as this host; waiting for its end'),
        onLost(error) {
          logger.fatal({ err: error }, 'another process may act as this host from now on; restarting');
          process.exit(1);
        },
      })
    : null;
const driver = await openDriver();
const registry = createProcessRegistry(() => poolCounts(orm));
const reports = createLifeReports({ logger, metrics: new SandboxMetrics(registry), logWork: true });
// Sandboxes that cannot reach an address of the host cannot get credentials from it.
const turnAddress = driver.gateway;
if (turn && turnAddress === null) logger.warn('sandboxes on a cluster get no TURN credentials');
const environments = {
  environment: turn && turnAddress !== null ? turnEnvironment(turn, turnAddress) : {},
  internetEnvironment: proxy ? proxyEnvironment(proxy) : {},
};
const facts = new SandboxFacts({ client: createTemporalClient(settings, secrets), logger });
const lease = new HostLease({
  databaseUrl: settings.DATABASE_URL,
  describe: () => describeHost(settings, hostId, driver),
  fence: driver.fence,
  leaseSeconds: settings.PLATFORM_HOST_LEASE_SECONDS,
  logger,
  onLost() {
    // A host that was given up restarts, because the start cleans up and then offers the host again.
    logger.fatal('this host was given up because it could not renew its lease; restarting');
    process.exit(1);
  },
});
await requireOwnDataFolder(orm, hostId, settings.PLATFORM_DATA_DIR, driver);
const lastAlive = (await lastAliveAt(orm.em, hostId)) ?? new Date();
const { lost } = await lease.hold();
// The disk watch starts first, because running sandboxes write to the disk while this process starts.
const { diskFolder } = driver;
const diskWatch =
  diskFolder === null
    ? null
    : new DiskWatch({
        orm,
        driver,
        diskFolder,
        fence: driver.fence,
        lease,
        facts,
        hostId,
        cacheDir: settings.PLATFORM_CACHE_DIR,
        logger,
      });
await diskWatch?.start();
await recordSandboxNetwork(orm.em, hostId, driver.subnet);
await recordLastHop(orm.em, hostId, settings.PLATFORM_LAST_HOP_ADDRESS ?? null);
if (lost) await whenGivenUp(orm, hostId, logger);
driver.onExit((exit) => facts.exited(exit));
const reconciliation = new HostReconciliation({
  orm,
  plans,
  driver,
  facts,
  hostId,
  createSpec: (row) => toSpec(row, { secrets, ...environments }),
  logger,
});
await reconciliation.takeOver(lastAlive);
if (lost) await rejoin(orm.em, hostId);
const sandboxAt = (address: string) => driver.sandboxAt(address);
const turnService = turn && turnAddress !== null ? new TurnCredentialService({ turn, sandboxAt, logger }) : null;
if (turnAddress !== null) await turnService?.listen(turnAddress);
const { workers, starts, moves } = await createHostWorkers({
  connection,
  namespace: settings.TEMPORAL_NAMESPACE,
  hostId,
  orm,
  plans,
  secrets,
  driver,
  registry: PlatformRegistry.of(settings),
  ...environments,
  ...reports,
  logger,
});
await offerUdpPorts(orm.em, hostId, {
  publicAddress: settings.PLATFORM_HOST_PUBLIC_ADDRESS ?? driver.hostAddress,
  ports: driver.udpRange,
});
const capacity = new CapacityReporter({
  orm,
  driver,
  hostId,
  memoryReserveMb: settings.PLATFORM_HOST_MEMORY_RESERVE_MB,
  logger,
});
await capacity.start();
await lease.offer();
await askForHostWatch(orm.em, hostId);
const { DATABASE_URL: databaseUrl } = settings;
const directWork = new DirectWorkListener({ orm, databaseUrl, hostId, starts, moves, logger });
directWork.start();
const onSample = capacity.take.bind(capacity);
const sampler = new MetricsSampler({ orm, driver, hostId, logger, onSample });
sampler.start();
reconciliation.start();
const pooledImages = new PooledImages({ orm, databaseUrl: settings.DATABASE_URL, driver, logger });
pooledImages.start();
const builtinImages = new BuiltinImageKeeper({
  orm,
  images: driver.builtinImages,
  hostId,
  ahead: settings.PLATFORM_IMAGES_AHEAD,
  hasSpace: () => hasSpaceToAdmit(readDiskSpace(settings.PLATFORM_CACHE_DIR)),
  logger,
});
await builtinImages.start();
createHostGauges(registry, () => ({
  ...capacity.latest,
  warmSandboxes: driver.poolReady,
  pressure: driver.pressure?.() ?? null,
  isFenced: driver.fence.isClosed,
}));
const metrics = await serveWorkerMetrics({
  settings,
  port: settings.PLATFORM_HOST_METRICS_PORT,
  sdkPort: sdkMetricsPort,
  registry,
  logger,
});
await reportReady();
logger.info({ hostId }, 'ready');
const stopped = stopSignal();
await Promise.all([...workers.map((worker) => worker.runUntil(stopped)), stopped.then(() => directWork.stop())]);
await diskWatch?.stop();
await Promise.all([sampler.stop(), capacity.stop(), reconciliation.stop(), pooledImages.stop()]);
await builtinImages.stop();
await metrics?.close();
await lease.giveUp();
facts.stop();
await turnService?.close();
await driver.close();
await driver
  .leaveIfEmpty()
  .catch((error) => logger.warn({ err: error }, 'the network of sandboxes could not be removed'));
await hostLock?.release();
await connection.close();
stopFollowing();
await orm.close();
process.exit(0);
