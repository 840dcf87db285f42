import { setImmediate as nextTurn } from 'node:timers/promises';
import { auditedRequest } from '../db/accounts/audit-events.ts';
import { loadPlans } from '../db/billing/plans.ts';
import { reachDatabase } from '../db/core/out-of-reach.ts';
import { openSecrets } from '../db/open-secrets.ts';
import { createOrm } from '../db/orm.ts';
import { DirectMoves } from '../db/sandboxes/direct-moves.ts';
import { openLastHops } from '../gateway/last-hop/last-hops.ts';
import { PaymentProcessor } from '../integrations/payments/processor.ts';
import { PlatformRegistry } from '../integrations/registry/platform-registry.ts';
import { WebhookKeys } from '../integrations/webhooks/keys.ts';
import { apiUrl } from '../platform/config/public-urls.ts';
import { operatorTokens } from '../platform/config/secrets.ts';
import { reportReady } from '../platform/config/service-manager.ts';
import { loadSettings } from '../platform/config/settings.ts';
import { stopSignal } from '../platform/config/stop-signal.ts';
import { serveMetrics } from '../platform/monitoring/metrics-server.ts';
import { createTemporalClient } from '../platform/temporal/client.ts';
import { EncryptionCodec } from '../platform/temporal/payload-codec.ts';
import { readTaskQueueAges } from '../platform/temporal/task-queue-ages.ts';
import { WorkerDeployment } from '../platform/temporal/worker-deployment.ts';
import { createApp } from './app.ts';
import { ListCursors } from './list-cursors.ts';
import { createApiLogger } from './plugins/request-logs.ts';
import { IdentityProviders } from './routes/accounts/oidc/identity-providers.ts';
import { PendingSignIns } from './routes/accounts/oidc/pending-sign-ins.ts';
import { AccessTokens } from './routes/accounts/sign-in/access-tokens.ts';
import { PasswordHashes } from './routes/accounts/sign-in/password-hashes.ts';
import { TemporalPasswordResets } from './routes/accounts/sign-in/password-resets.ts';
import { CardLinks } from './routes/billing/card-links.ts';
import { ClaimedMoves } from './routes/sandboxes/claimed-moves.ts';
import { TemporalSandboxCommands } from './routes/sandboxes/commands.ts';
import { SandboxAgents } from './routes/sandboxes/exec/agents.ts';
import { ExecutionEndWatch } from './routes/sandboxes/exec/execution-end-watch.ts';
import { ExecTokens } from './routes/sandboxes/exec/tokens.ts';
import { SandboxNews } from './routes/sandboxes/sandbox-news.ts';

/** How long a stopping process waits for requests in progress. */
const graceMs = 30_000;
/** How long one reading of the versions of the control workers may take. */
const workerVersionsMs = 3000;

/** The API's process. Any number of such processes may run. */
const settings = loadSettings();
const logger = createApiLogger(settings.PLATFORM_LOG_LEVEL);
const orm = await createOrm(settings.DATABASE_URL, settings.DATABASE_POOL_SIZE);
const { secrets, stopFollowing } = await openSecrets(orm, settings, logger);
const tokens = operatorTokens(settings);
const currentRequestId = () => auditedRequest.getStore()?.requestId;
const client = createTemporalClient(settings, secrets, currentRequestId);
const lastHops = await openLastHops(settings, { orm, logger });
const sandboxAgents = new SandboxAgents(secrets.platformToken, lastHops?.tunnels);
const executionEndWatch = new ExecutionEndWatch({ orm, sandboxAgents, logger });
const sandboxNews = new SandboxNews({ databaseUrl: settings.DATABASE_URL, logger });
const plans = loadPlans(settings.PLATFORM_PLANS_FILE);
const moves = new DirectMoves(orm.em, plans);
const claimedMoves = new ClaimedMoves({ moves, news: sandboxNews, currentRequestId });
const deployment = settings.PLATFORM_WORKER_DEPLOYMENT
  ? new WorkerDeployment(client, settings.PLATFORM_WORKER_DEPLOYMENT)
  : null;
const readWorkerVersions = async () =>
  deployment && client.withDeadline(Date.now() + workerVersionsMs, () => deployment.versions());
const app = createApp({
  orm,
  plans,
  settings,
  sandboxCommands: new TemporalSandboxCommands({ client, orm, logger, claimedMoves }),
  sandboxNews,
  deriveAgentToken: secrets.agentToken,
  secretKeyNumber: () => secrets.secretKeyNumber,
  sealFor: secrets.sealFor,
  sealRegistryPassword: secrets.sealRegistryPassword,
  registry: PlatformRegistry.of(settings),
  paymentProcessor: PaymentProcessor.of(settings),
  clientAddressKeys: secrets.clientAddressKeys,
  listCursors: new ListCursors(secrets.listCursorKeys),
  cardLinks: new CardLinks(secrets.cardLinkKeys),
  sandboxAgents,
  executionEndWatch,
  execTokens: new ExecTokens(secrets.execTokenKeys),
  accessTokens: new AccessTokens(secrets),
  passwords: new PasswordHashes(secrets),
  identityProviders: new IdentityProviders(settings, { logger }),
  pendingSignIns: new PendingSignIns(secrets.pendingSignInKeys, apiUrl(settings).startsWith('https:')),
  webhookKeys: new WebhookKeys(secrets),
  passwordResets: new TemporalPasswordResets({ client, logger }),
  codec: new EncryptionCodec(secrets),
  codecAccessTokens: tokens.codecAccess,
  readiness: [
    { name: 'postgres', check: () => reachDatabase(orm.em.fork()) },
    { name: 'temporal', check: () => client.workflowService.getSystemInfo({}) },
  ],
  readTaskQueueAges: () => readTaskQueueAges(client),
  readWorkerVersions,
  logger,
});
const address = await app.listen({ host: settings.PLATFORM_API_HOST, port: settings.PLATFORM_API_PORT });
const metricsServer = settings.PLATFORM_API_METRICS_PORT
  ? await serveMetrics({
      host: settings.PLATFORM_METRICS_HOST,
      port: settings.PLATFORM_API_METRICS_PORT,
      tokens: tokens.metrics,
      collect: () => app.collectMetrics(),
      onError: (error) => logger.warn({ err: error }, 'the metrics port could not be served'),
    })
  : null;
executionEndWatch.start();
sandboxNews.start();
await reportReady();
logger.info({ address }, 'ready');

await stopSignal();
setTimeout(() => process.exit(1), graceMs).unref();
const closed = app.close();
while (app.server.listening) await nextTurn();
await app.drained();
app.server.closeAllConnections();
await closed;
await metricsServer?.close();
await executionEndWatch.stop();
await sandboxNews.close();
await lastHops?.stop();
await client.connection.close();
stopFollowing();
await orm.close();
logger.info('stopped');
process.exit(0);
