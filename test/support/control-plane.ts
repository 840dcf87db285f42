import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Client, Connection, type ConnectionLike } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { DefaultLogger, NativeConnection, Runtime, type Worker } from '@temporalio/worker';
import { pino } from 'pino';
import type { SandboxMoves } from '../../activities/sandboxes/moves.ts';
import type { SandboxStarts } from '../../activities/sandboxes/starts.ts';
import { TemporalSandboxCommands } from '../../api/routes/sandboxes/commands.ts';
import type { MadeAccount } from '../../db/accounts/accounts.ts';
import { loadPlans, type PlanCatalog } from '../../db/billing/plans.ts';
import { bootstrap } from '../../db/bootstrap.ts';
import { newId } from '../../db/core/new-id.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { admitSandbox, type NewSandbox } from '../../db/sandboxes/admission.ts';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { Template } from '../../db/templates/template.entity.ts';
import type { Retention } from '../../db/upkeep/retention.ts';
import { anyRegion } from '../../domain/hosts/placement.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { createMailer } from '../../integrations/mail/mailer.ts';
import { PlatformRegistry } from '../../integrations/registry/platform-registry.ts';
import { WebhookKeys } from '../../integrations/webhooks/keys.ts';
import { WebhookSender } from '../../integrations/webhooks/sender.ts';
import { deriveSecrets, type PlatformSecrets } from '../../platform/config/secrets.ts';
import { loadSettings, type Settings } from '../../platform/config/settings.ts';
import { clientConnectionOptions } from '../../platform/temporal/client-connection-options.ts';
import { createDataConverter } from '../../platform/temporal/data-converter.ts';
import { updateExpiry } from '../../platform/temporal/update-expiry.ts';
import type { SandboxDriver } from '../../runtime/driver.ts';
import { createControlWorkers } from '../../worker/control-worker.ts';
import { createHostWorkers } from '../../worker/host-worker.ts';
import { HostLease } from '../../worker/hosts/lease.ts';
import { OutboxRelay } from '../../worker/outbox-relay.ts';
import { DirectWorkListener } from '../../worker/sandboxes/direct-work-listener.ts';
import { SandboxFacts } from '../../worker/sandboxes/facts.ts';
import { WebhookRelay } from '../../worker/webhooks/relay.ts';
import { ensureWorkflowBundle } from '../../worker/workflow-bundle.ts';
import { shortHistoryNamespace, testDatabase, testNamespace, timeSkippingEnvironment } from './stack.ts';

const keptForLong: Retention = {
  eventsDays: 90,
  notificationsDays: 90,
  endedSandboxesDays: 90,
  webhookDeliveriesDays: 90,
  rowsPerAccount: 10_000,
};

const silent = pino({ level: 'silent' });
// This runs at import, because the SDK accepts a logger only before its first connection.
Runtime.install({ logger: new DefaultLogger('ERROR') });

/** Everything between the API and the driver, in this process, on real Postgres and a Temporal. */
export interface ControlPlane {
  orm: Orm;
  plans: PlanCatalog;
  secrets: PlatformSecrets;
  client: Client;
  commands: TemporalSandboxCommands;
  relay: OutboxRelay;
  /** The host's first starts of sandboxes. */
  starts: SandboxStarts;
  /** The host's pauses and resumes that an API has claimed. */
  moves: SandboxMoves;
  /** Not started: a test that starts it has a host that starts, pauses and resumes sandboxes directly. */
  directWork: DirectWorkListener;
  /** Only tests of webhooks start it. */
  webhookRelay: WebhookRelay;
  account: MadeAccount;
  hostId: string;
  /**
   * Admits a sandbox as the API does, without starting it.
   * @param direct tell its host to start it
   */
  admit(wanted?: Partial<NewSandbox>, direct?: { requestId: string | null }): Promise<Sandbox>;
  row(sandboxId: SandboxId): Promise<Sandbox>;
  /** The control workers of each version, the first of which is none. Those that still run are stopped with the plane. */
  controls: readonly (readonly Worker[])[];
  addControl(version: WorkerDeploymentVersion): Promise<Worker[]>;
  settings: Settings;
  /** Ends the workers of the host and keeps its lease, as if the host were unreachable. */
  stopHosts(): Promise<void>;
  stop(): Promise<void>;
}

/** A constant key, so that later runs can read recorded histories. */
export const testSecretKey = Buffer.alloc(32, 7).toString('base64');

/**
 * @param temporal the time-skipping environment's connections; the default is a new namespace on the run's Temporal
 * @param planName of the account that is made
 */
export async function startControlPlane(options: {
  driver: SandboxDriver;
  planName?: string;
  temporal?: { connection: ConnectionLike; nativeConnection: NativeConnection; namespace: string };
  hostWorker?: { slots: number; accountShare: number };
  retention?: Retention;
  /** Without a relay, only what a caller starts is started. */
  relay?: boolean;
  /** Use the namespace in which the server suggests continue-as-new after 100 events. */
  shortHistory?: boolean;
  /** Settings of the control worker. */
  env?: Record<string, string>;
}): Promise<ControlPlane> {
  const secrets = deriveSecrets({ PLATFORM_SECRET_KEY: testSecretKey });
  const database = await testDatabase();
  const orm = await createOrm(database.url, 8);
  const plans = loadPlans();
  const account = (await bootstrap(orm, {
    email: `root-${randomBytes(4).toString('hex')}@example.com`,
    planName: options.planName ?? 'hobby',
    baseImage: 'builtin:base',
  }))!;

  const own = options.temporal ? null : await connectOwn(options.shortHistory ?? false);
  const { connection, nativeConnection, namespace } = options.temporal ?? own!;
  const dataConverter = createDataConverter(secrets);
  const client = new Client({
    connection,
    namespace,
    dataConverter,
    // The clock of the time-skipping server runs ahead of this one.
    interceptors: { workflow: options.temporal ? [] : [updateExpiry(dataConverter)] },
  });
  const hostId = newId('host');
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-test-data-'));
  const settings = loadSettings({
    PLATFORM_SECRET_KEY: testSecretKey,
    DATABASE_URL: database.url,
    PLATFORM_URL: 'http://platform.test',
    PLATFORM_DATA_DIR: dataDir,
    ...options.env,
  });
  const common = { connection: nativeConnection, namespace, orm, plans, secrets };
  const webhooks = {
    keys: new WebhookKeys(secrets),
    sender: new WebhookSender({
      allowedRanges: ['127.0.0.0/8', '::1/128'],
      ownServices: async () => [],
      sandboxNetworks: async () => [],
    }),
  };
  const registry = PlatformRegistry.of(settings);
  const bundles = path.join(os.tmpdir(), 'sandbox-platform-test-bundles');
  const createControl = async (version: WorkerDeploymentVersion | null) =>
    createControlWorkers({
      ...common,
      otherOrm: orm,
      settings,
      mailer: createMailer(settings, silent),
      registry,
      webhooks,
      workflowBundle: await ensureWorkflowBundle(bundles, version ? 'versioned' : 'plain'),
      version,
      retention: options.retention ?? keptForLong,
    });
  const [control, { workers: hosts, starts, moves }] = await Promise.all([
    createControl(null),
    createHostWorkers({ ...common, hostId, driver: options.driver, registry, ...options.hostWorker, logger: silent }),
  ]);
  const controls = [control];
  const running = control.map((each) => each.run());
  const hostsRunning = hosts.map((host) => host.run());
  const stopHosts = async () => {
    for (const host of hosts) if (host.getState() === 'RUNNING') host.shutdown();
    await Promise.all(hostsRunning);
  };
  const lease = new HostLease({
    databaseUrl: database.url,
    fence: { isClosed: false, keepOpenUntil: async () => {}, open: async () => true },
    // No test waits for its end, and it must not expire when the machine stalls for seconds.
    leaseSeconds: 600,
    onLost: () => {},
    logger: silent,
    describe: () => ({
      hostId,
      region: 'local',
      regionName: 'Local',
      cpuCapacity: 1000,
      memoryMbCapacity: 1_000_000,
      diskGbCapacity: 100_000,
    }),
  });
  await lease.hold();
  await lease.offer();
  const facts = new SandboxFacts({ client, logger: silent });
  options.driver.onExit((exit) => facts.exited(exit));
  const directWork = new DirectWorkListener({ orm, databaseUrl: database.url, hostId, starts, moves, logger: silent });
  const relay = new OutboxRelay({ orm, client, logger: silent });
  if (options.relay ?? true) relay.start();
  const webhookRelay = new WebhookRelay({ orm, databaseUrl: database.url, webhooks, logger: silent });
  const base = await orm.em.fork().findOneOrFail(Template, { name: 'base' });

  return {
    orm,
    plans,
    secrets,
    client,
    commands: new TemporalSandboxCommands({ client, orm, logger: silent }),
    relay,
    starts,
    moves,
    directWork,
    webhookRelay,
    account,
    hostId,
    async admit(wanted = {}, direct) {
      const asked: NewSandbox = {
        sandboxId: newId('sandbox'),
        accountId: account.accountId,
        ownerUserId: account.userId,
        projectId: account.projectId,
        name: 'test',
        description: '',
        templateId: base.templateId,
        templateName: base.name,
        templateSource: base.templateSource,
        templatePorts: [],
        templateCustomCommand: null,
        templateReadyCommand: null,
        image: 'builtin:base',
        cpuCount: 1,
        memoryMb: 256,
        storageGb: 1,
        timeoutSeconds: 300,
        autoPause: false,
        secure: true,
        allowInternetAccess: false,
        metadata: {},
        envVars: {},
        customPorts: [],
        ...wanted,
      };
      return (await admitSandbox(orm.em.fork(), plans, asked, anyRegion, { direct: direct ?? null })).sandbox;
    },
    settings,
    controls,
    async addControl(version) {
      const added = await createControl(version);
      controls.push(added);
      running.push(...added.map((each) => each.run()));
      return added;
    },
    row: (sandboxId) => orm.em.fork().findOneOrFail(Sandbox, { sandboxId }),
    stopHosts,
    async stop() {
      await Promise.all([relay.stop(), webhookRelay.stop(), directWork.stop()]);
      facts.stop();
      for (const each of controls.flat()) if (each.getState() === 'RUNNING') each.shutdown();
      await Promise.all([...running, stopHosts()]);
      await webhooks.sender.close();
      await lease.giveUp();
      await own?.close();
      await orm.close();
      await database.drop();
      fs.rmSync(dataDir, { recursive: true });
    },
  };
}

async function connectOwn(shortHistory: boolean) {
  const { address, namespace } = await (shortHistory ? shortHistoryNamespace() : testNamespace());
  const [connection, nativeConnection] = await Promise.all([
    Connection.connect(clientConnectionOptions({ TEMPORAL_ADDRESS: address, TEMPORAL_TLS: false })),
    NativeConnection.connect({ address }),
  ]);
  const close = async () => {
    await connection.close();
    await nativeConnection.close();
  };
  return { connection, nativeConnection, namespace, close };
}

/** A control plane with its own Temporal, whose time jumps to the next timer. */
export async function startTimeSkippingPlane(
  driver: SandboxDriver,
  env: Record<string, string> = {},
): Promise<{ environment: TestWorkflowEnvironment; plane: ControlPlane; stop(): Promise<void> }> {
  const environment = await timeSkippingEnvironment();
  const { connection, nativeConnection, namespace = 'default' } = environment;
  const plane = await startControlPlane({
    driver,
    env,
    relay: false,
    temporal: { connection, nativeConnection, namespace },
  });
  const stop = async () => {
    await plane.stop();
    await environment.teardown();
  };
  return { environment, plane, stop };
}
