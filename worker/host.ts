import { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { toSpec } from '../activities/sandbox-spec.ts';
import { logDestination } from '../config/log-destination.ts';
import { namedServices, ownServices } from '../config/own-services.ts';
import { proxyEnvironment, sandboxProxy } from '../config/sandbox-proxy.ts';
import { deriveSecrets } from '../config/secrets.ts';
import { loadSettings } from '../config/settings.ts';
import { stopSignal } from '../config/stop-signal.ts';
import { turnSettings } from '../config/turn-settings.ts';
import { createOrm } from '../db/orm.ts';
import { loadPlans } from '../db/plans.ts';
import { askForHostWatch, lastAliveAt, recordSandboxNetwork, rejoin } from '../db/repositories/hosts.ts';
import { offerUdpPorts } from '../db/repositories/udp-ports.ts';
import { PlatformRegistry } from '../registry/platform-registry.ts';
import { createHostDriver } from '../runtime/choose-driver.ts';
import { MachineLoad } from '../runtime/machine-load.ts';
import { createTemporalClient } from '../temporal/client.ts';
import { DiskWatch } from './disk-watch.ts';
import { describeHost } from './host-identity.ts';
import { HostLease } from './host-lease.ts';
import { HostReconciliation, whenGivenUp } from './host-reconciliation.ts';
import { createHostWorkers } from './host-worker.ts';
import { logTemporalThrough } from './logging.ts';
import { MetricsSampler } from './metrics-sampler.ts';
import { requireOwnDataFolder } from './own-data-folder.ts';
import { PooledImages } from './pooled-images.ts';
import { RoomReporter } from './room-reporter.ts';
import { SandboxFacts } from './sandbox-facts.ts';
import { serverAddresses } from './server-addresses.ts';
import { TurnCredentialService, turnEnvironment } from './turn-credential-service.ts';

/** The host worker's process: one on each machine that runs sandboxes. When it ends, its sandboxes go on. */
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'host' }, logDestination());
logTemporalThrough(logger);
const secrets = deriveSecrets(settings);
const plans = loadPlans(settings.PLATFORM_PLANS_FILE);
const host = describeHost(settings);
const turn = turnSettings(settings);
const proxy = sandboxProxy(settings);
const [orm, connection, driver] = await Promise.all([
  createOrm(settings.DATABASE_URL, settings.DATABASE_POOL_SIZE),
  NativeConnection.connect({ address: settings.TEMPORAL_ADDRESS, tls: settings.TEMPORAL_TLS }),
  createHostDriver(settings, {
    hostServicePorts: turn ? [turn.servicePort] : [],
    openServers: [
      ...(turn ? await serverAddresses('TURN server', turn.internalAddress, logger) : []),
      ...(proxy ? await serverAddresses('proxy', proxy, logger) : []),
    ],
    ownServices: () => ownServices(namedServices(settings)),
    logger,
  }),
]);
const environments = {
  environment: turn ? turnEnvironment(turn, driver.gateway) : {},
  internetEnvironment: proxy ? proxyEnvironment(proxy) : {},
};
const facts = new SandboxFacts({ client: createTemporalClient(settings, secrets), logger });
const lease = new HostLease({
  databaseUrl: settings.DATABASE_URL,
  describe: () => describeHost({ ...settings, PLATFORM_HOST_ID: host.hostId }),
  fence: driver.fence,
  leaseSeconds: settings.PLATFORM_HOST_LEASE_SECONDS,
  logger,
  onLost() {
    // A host that was given up does the same as at every start: clean up, then offer itself again.
    logger.fatal('this host was given up while it could not renew its lease; starting anew');
    process.exit(1);
  },
});
await requireOwnDataFolder(orm, host.hostId, settings.PLATFORM_DATA_DIR);
const lastAlive = (await lastAliveAt(orm.em, host.hostId)) ?? new Date();
const { lost } = await lease.hold();
// First of all: running sandboxes write to the disk while this process starts.
const diskWatch = new DiskWatch({
  orm,
  driver,
  fence: driver.fence,
  lease,
  facts,
  hostId: host.hostId,
  cacheDir: settings.PLATFORM_CACHE_DIR,
  logger,
});
await diskWatch.start();
await recordSandboxNetwork(orm.em, host.hostId, driver.subnet);
if (lost) await whenGivenUp(orm, host.hostId, logger);
driver.onExit((exit) => facts.exited(exit));
const reconciliation = new HostReconciliation({
  orm,
  plans,
  driver,
  facts,
  hostId: host.hostId,
  specOf: (row) => toSpec(row, { secrets, ...environments }),
  logger,
});
await reconciliation.takeOver(lastAlive);
if (lost) await rejoin(orm.em, host.hostId);
const sandboxAt = (address: string) => driver.sandboxAt(address);
const turnService = turn ? new TurnCredentialService({ turn, sandboxAt, logger }) : null;
await turnService?.listen(driver.gateway);
const workers = await createHostWorkers({
  connection,
  namespace: settings.TEMPORAL_NAMESPACE,
  hostId: host.hostId,
  orm,
  plans,
  secrets,
  driver,
  registry: PlatformRegistry.of(settings),
  ...environments,
});
await offerUdpPorts(orm.em, host.hostId, {
  publicAddress: settings.PLATFORM_HOST_PUBLIC_ADDRESS ?? driver.hostAddress,
  ports: driver.udpRange,
});
const room = new RoomReporter({
  orm,
  driver,
  machine: new MachineLoad(),
  hostId: host.hostId,
  memoryReserveMb: settings.PLATFORM_HOST_MEMORY_RESERVE_MB,
  logger,
});
await room.start();
await lease.offer();
await askForHostWatch(orm.em, host.hostId);
const onLook = room.take.bind(room);
const sampler = new MetricsSampler({ orm, driver, hostId: host.hostId, logger, onLook });
sampler.start();
reconciliation.start();
const pooledImages = new PooledImages({ orm, databaseUrl: settings.DATABASE_URL, driver, logger });
pooledImages.start();
logger.info({ hostId: host.hostId }, 'ready');
const stopped = stopSignal();
await Promise.all(workers.map((worker) => worker.runUntil(stopped)));
await diskWatch.stop();
await Promise.all([sampler.stop(), room.stop(), reconciliation.stop(), pooledImages.stop()]);
await lease.giveUp();
facts.stop();
await turnService?.close();
await driver.close();
await connection.close();
await orm.close();
process.exit(0);
