import { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { logDestination } from '../config/log-destination.ts';
import { deriveSecrets } from '../config/secrets.ts';
import { loadSettings } from '../config/settings.ts';
import { stopSignal } from '../config/stop-signal.ts';
import { createOrm } from '../db/orm.ts';
import { loadPlans } from '../db/plans.ts';
import { createMailer } from '../mail/mailer.ts';
import { PlatformRegistry } from '../registry/platform-registry.ts';
import { createTemporalClient } from '../temporal/client.ts';
import { WebhookKeys } from '../webhooks/keys.ts';
import { createControlWorker } from './control-worker.ts';
import { logTemporalThrough } from './logging.ts';
import { OutboxRelay } from './outbox-relay.ts';
import { ensureSchedules } from './schedules.ts';
import { createWebhookSender } from './webhook-egress.ts';
import { WebhookRelay } from './webhook-relay.ts';
import { ensureWorkflowBundle } from './workflow-bundle.ts';

/** The control worker's process: workflows, their database activities, and the outbox relay. Any number may run. */
const settings = loadSettings();
const logger = pino({ level: settings.PLATFORM_LOG_LEVEL, name: 'worker' }, logDestination());
logTemporalThrough(logger);
const secrets = deriveSecrets(settings);
const [orm, connection, workflowBundle] = await Promise.all([
  createOrm(settings.DATABASE_URL, settings.DATABASE_POOL_SIZE),
  NativeConnection.connect({ address: settings.TEMPORAL_ADDRESS, tls: settings.TEMPORAL_TLS }),
  ensureWorkflowBundle(settings.PLATFORM_CACHE_DIR),
]);
const webhooks = { keys: new WebhookKeys(secrets), sender: createWebhookSender(settings, orm) };
const worker = await createControlWorker({
  connection,
  namespace: settings.TEMPORAL_NAMESPACE,
  orm,
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
});
const client = createTemporalClient(settings, secrets);
await ensureSchedules(client);
const relay = new OutboxRelay({ orm, client, logger });
relay.start();
const webhookRelay = new WebhookRelay({ orm, databaseUrl: settings.DATABASE_URL, webhooks, logger });
webhookRelay.start();
logger.info('ready');
await worker.runUntil(stopSignal());
await Promise.all([relay.stop(), webhookRelay.stop()]);
await webhooks.sender.close();
await client.connection.close();
await connection.close();
await orm.close();
process.exit(0);
