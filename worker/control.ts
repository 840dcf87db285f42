import path from 'node:path';
import { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { loadPlans } from '../db/billing/plans.ts';
import { openSecrets } from '../db/open-secrets.ts';
import { createOrm, poolCounts } from '../db/orm.ts';
import { readPlatformFigures } from '../db/upkeep/platform-figures.ts';
import { adoptUsagePrices } from '../db/usage/usage-upkeep.ts';
import { innerLoopbackAddress } from '../domain/outbound-addresses.ts';
import { LastHopAuthority } from '../gateway/last-hop/authority.ts';
import { createMailer } from '../integrations/mail/mailer.ts';
import { PlatformRegistry } from '../integrations/registry/platform-registry.ts';
import { WebhookKeys } from '../integrations/webhooks/keys.ts';
import { freeLoopbackPort } from '../platform/config/free-port.ts';
import { logDestination } from '../platform/config/log-destination.ts';
import { reportReady } from '../platform/config/service-manager.ts';
import { loadSettings } from '../platform/config/settings.ts';
import { stopSignal } from '../platform/config/stop-signal.ts';
import { PlatformGauges } from '../platform/monitoring/platform-gauges.ts';
import { createProcessRegistry } from '../platform/monitoring/process-metrics.ts';
import { createQueueGauges } from '../platform/monitoring/queue-gauges.ts';
import { SandboxMetrics } from '../platform/monitoring/sandbox-metrics.ts';
import { createTemporalGauge } from '../platform/monitoring/temporal-gauge.ts';
import { createTemporalClient } from '../platform/temporal/client.ts';
import { temporalConnectionOptions } from '../platform/temporal/connection-options.ts';
import { readTaskQueueAges } from '../platform/temporal/task-queue-ages.ts';
import { createControlWorkers } from './control-worker.ts';
import { takeFirstWork, workerVersion } from './deployment-version.ts';
import { LastHopIssuer } from './hosts/last-hop-issuer.ts';
import { logTemporalThrough } from './logging.ts';
import { OutboxRelay } from './outbox-relay.ts';
import { createLifeReports } from './sandboxes/life-reports.ts';
import { ensureSchedules } from './schedules.ts';
import { createWebhookSender } from './webhooks/egress.ts';
import { WebhookRelay } from './webhooks/relay.ts';
import { serveWorkerMetrics } from './worker-metrics.ts';
import { ensureWorkflowBundle } from './workflow-bundle.ts';

/**
 * The control worker's process: workflows, their database activities, and the outbox relay. Any number of such
 * processes may run.
 */
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'worker' }, logDestination());
const sdkMetricsPort = settings.PLATFORM_WORKER_METRICS_PORT ? await freeLoopbackPort(innerLoopbackAddress) : null;
logTemporalThrough(logger, sdkMetricsPort);
const version = workerVersion(settings);
const [orm, otherOrm, connection, workflowBundle] = await Promise.all([
  createOrm(settings.DATABASE_URL, settings.DATABASE_POOL_SIZE),
  createOrm(settings.DATABASE_URL, settings.DATABASE_POOL_SIZE),
  NativeConnection.connect(temporalConnectionOptions(settings)),
  ensureWorkflowBundle(settings.PLATFORM_CACHE_DIR, version ? 'versioned' : 'plain'),
]);
const { secrets, stopFollowing } = await openSecrets(orm, settings, logger);
const registry = createProcessRegistry(() => poolCounts(orm, otherOrm));
const figures = new PlatformGauges(
  registry,
  () => readPlatformFigures(orm.em),
  (error) => logger.warn({ err: error }, 'the state of the platform could not be read for the metrics'),
);
const reports = createLifeReports({ logger, metrics: new SandboxMetrics(registry), logWork: false });
const webhooks = { keys: new WebhookKeys(secrets), sender: createWebhookSender(settings, otherOrm) };
const workers = await createControlWorkers({
  connection,
  namespace: settings.TEMPORAL_NAMESPACE,
  orm,
  otherOrm,
  plans: loadPlans(settings.PLATFORM_PLANS_FILE),
  retention: {
    eventsDays: settings.PLATFORM_EVENTS_KEPT_DAYS,
    notificationsDays: settings.PLATFORM_NOTIFICATIONS_KEPT_DAYS,
    endedSandboxesDays: settings.PLATFORM_ENDED_SANDBOXES_KEPT_DAYS,
    webhookDeliveriesDays: settings.PLATFORM_WEBHOOK_DELIVERIES_KEPT_DAYS,
    rowsPerAccount: settings.PLATFORM_ROWS_KEPT_PER_ACCOUNT,
  },
  secrets,
  settings,
  mailer: createMailer(settings, logger),
  registry: PlatformRegistry.of(settings),
  webhooks,
  workflowBundle,
  version,
  ...reports,
});
const client = createTemporalClient(settings, secrets);
createQueueGauges(
  registry,
  () => readTaskQueueAges(client),
  (error) => logger.warn({ err: error }, 'the ages of the task queues could not be read for the metrics'),
);
createTemporalGauge(registry, () => client.workflowService.getSystemInfo({}));
const stopping = new AbortController();
await ensureSchedules(client);
if (await adoptUsagePrices(orm.em)) logger.info('the new prices of usage apply from now on');
const relay = new OutboxRelay({ orm, client, logger });
relay.start();
const webhookRelay = new WebhookRelay({ orm: otherOrm, databaseUrl: settings.DATABASE_URL, webhooks, logger });
webhookRelay.start();
const caFolder = settings.PLATFORM_LAST_HOP_CA_DIR;
const authority = caFolder ? await LastHopAuthority.open(path.resolve(caFolder)) : null;
const issuer = authority ? new LastHopIssuer({ orm, databaseUrl: settings.DATABASE_URL, authority, logger }) : null;
issuer?.start();
const metrics = await serveWorkerMetrics({
  settings,
  port: settings.PLATFORM_WORKER_METRICS_PORT,
  sdkPort: sdkMetricsPort,
  registry,
  beforeCollecting: () => figures.refresh(),
  logger,
});
if (version) void takeFirstWork(client, version, logger, stopping.signal);
await reportReady();
logger.info({ version: version?.buildId }, 'ready');
const stopped = stopSignal();
await Promise.all(workers.map((worker) => worker.runUntil(stopped)));
stopping.abort();
await Promise.all([relay.stop(), webhookRelay.stop(), issuer?.stop()]);
await metrics?.close();
await webhooks.sender.close();
await client.connection.close();
await connection.close();
stopFollowing();
await Promise.all([orm.close(), otherOrm.close()]);
process.exit(0);
