import { randomBytes } from 'node:crypto';
import { Writable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { createApp } from '../../api/app.ts';
import type { ApiDependencies, ReadinessCheck } from '../../api/dependencies.ts';
import { ListCursors } from '../../api/list-cursors.ts';
import { createApiLogger } from '../../api/plugins/request-logs.ts';
import { IdentityProviders } from '../../api/routes/accounts/oidc/identity-providers.ts';
import { PendingSignIns } from '../../api/routes/accounts/oidc/pending-sign-ins.ts';
import { AccessTokens } from '../../api/routes/accounts/sign-in/access-tokens.ts';
import { PasswordHashes } from '../../api/routes/accounts/sign-in/password-hashes.ts';
import type { PasswordResets } from '../../api/routes/accounts/sign-in/password-resets.ts';
import { CardLinks } from '../../api/routes/billing/card-links.ts';
import type { SandboxCommands } from '../../api/routes/sandboxes/commands.ts';
import { SandboxAgents } from '../../api/routes/sandboxes/exec/agents.ts';
import { ExecutionEndWatch } from '../../api/routes/sandboxes/exec/execution-end-watch.ts';
import { ExecTokens } from '../../api/routes/sandboxes/exec/tokens.ts';
import type { SandboxNews } from '../../api/routes/sandboxes/sandbox-news.ts';
import { Account } from '../../db/accounts/account.entity.ts';
import { createAccount, type MadeAccount } from '../../db/accounts/accounts.ts';
import { ApiKey } from '../../db/accounts/api-key.entity.ts';
import { hashApiKey } from '../../db/accounts/identities.ts';
import { Project } from '../../db/accounts/project.entity.ts';
import { User } from '../../db/accounts/user.entity.ts';
import { loadPlans, type PlanCatalog } from '../../db/billing/plans.ts';
import { bootstrap } from '../../db/bootstrap.ts';
import { newId } from '../../db/core/new-id.ts';
import { Host } from '../../db/hosts/host.entity.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { Template } from '../../db/templates/template.entity.ts';
import { makeApiKey } from '../../domain/accounts/api-key.ts';
import { AppError } from '../../domain/errors.ts';
import type { AccountId, ApiKeyId, ProjectId, SandboxId, TemplateId, UserId } from '../../domain/ids.ts';
import { PaymentProcessor } from '../../integrations/payments/processor.ts';
import { PlatformRegistry } from '../../integrations/registry/platform-registry.ts';
import { WebhookKeys } from '../../integrations/webhooks/keys.ts';
import { deriveSecrets, operatorTokens } from '../../platform/config/secrets.ts';
import { loadSettings, type Settings } from '../../platform/config/settings.ts';
import { EncryptionCodec } from '../../platform/temporal/payload-codec.ts';
import { testDatabase } from '../support/stack.ts';
import { ContractClient, type Reply, type Request } from './contract-client.ts';
import { RowCommands } from './row-commands.ts';

/** A caller of the API. */
export interface Caller {
  accountId: AccountId;
  userId: UserId;
  projectId: ProjectId;
  keyId: ApiKeyId;
  key: string;
}

export interface TestApi {
  app: FastifyInstance;
  /** The dependencies with which the app was made. */
  dependencies: ApiDependencies;
  orm: Orm;
  plans: PlanCatalog;
  settings: Settings;
  commands: RowCommands;
  client: ContractClient;
  /** The log, one line per entry. */
  log: string[];
  /** The root admin of the platform's first account, on the requested plan. */
  root: Caller;
  send(caller: Caller | null, method: string, url: string, request?: unknown, more?: Request): Promise<Reply>;
  /** The root user of another account. */
  addAccount(planName?: string): Promise<Caller>;
  /** Adds a user of the same account who is not root. */
  addUser(of: Caller): Promise<Caller>;
  addTemplate(fields: Partial<Template>): Promise<TemplateId>;
  /** The number of rows of each table, for requests that must leave nothing behind. */
  counts(): Promise<Record<string, number>>;
  stop(): Promise<void>;
}

/**
 * The API with its own database, without a network.
 * @param options.throughUrl another connection to the database
 * @param options.on an existing control plane, with its database, account, host and commands
 */
export async function startApi(
  options: {
    planName?: string;
    env?: Record<string, string>;
    readiness?: ReadinessCheck[];
    readTaskQueueAges?: ApiDependencies['readTaskQueueAges'];
    readWorkerVersions?: ApiDependencies['readWorkerVersions'];
    throughUrl?: (url: string) => string;
    /** Returns the token for the platform's paths of a sandbox's agent. */
    platformToken?: (sandboxId: SandboxId) => string;
    stalledReaderMs?: number;
    on?: {
      orm: Orm;
      account: MadeAccount;
      commands: SandboxCommands;
      passwordResets?: PasswordResets;
      sandboxNews?: SandboxNews;
    };
  } = {},
): Promise<TestApi> {
  const { on } = options;
  const database = on ? null : await testDatabase();
  const url = options.throughUrl?.(database!.tcpUrl) ?? database?.url ?? 'postgres://unused';
  const settings = loadSettings({
    PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
    DATABASE_URL: url,
    ...options.env,
  });
  const orm = on?.orm ?? (await createOrm(url, 10));
  const plans = loadPlans();
  const made = on?.account ?? (await firstAccount(orm, options.planName ?? 'hobby'));
  const commands = new RowCommands(orm, plans);
  const log: string[] = [];
  const logger = createApiLogger('debug', lines(log));
  const sandboxAgents = new SandboxAgents(options.platformToken ?? (() => 'unknown'));
  const secrets = deriveSecrets(settings);
  const dependencies: ApiDependencies = {
    orm,
    plans,
    settings,
    sandboxCommands: on?.commands ?? commands,
    sandboxNews: on?.sandboxNews ?? { expect: () => null },
    deriveAgentToken: (sandboxId) => `token-of-${sandboxId}`,
    secretKeyNumber: () => secrets.secretKeyNumber,
    sealFor: secrets.sealFor,
    sealRegistryPassword: secrets.sealRegistryPassword,
    registry: PlatformRegistry.of(settings),
    paymentProcessor: PaymentProcessor.of(settings),
    clientAddressKeys: secrets.clientAddressKeys,
    listCursors: new ListCursors(secrets.listCursorKeys),
    cardLinks: new CardLinks(secrets.cardLinkKeys),
    sandboxAgents,
    executionEndWatch: new ExecutionEndWatch({ orm, sandboxAgents, logger }),
    execTokens: new ExecTokens(() => [Buffer.alloc(32, 9)]),
    accessTokens: new AccessTokens(secrets),
    passwords: new PasswordHashes(secrets, cheapHashes),
    identityProviders: new IdentityProviders(settings, { logger }),
    pendingSignIns: new PendingSignIns(secrets.pendingSignInKeys, false),
    webhookKeys: new WebhookKeys(secrets),
    passwordResets: on?.passwordResets ?? noPasswordResets,
    codec: new EncryptionCodec(secrets),
    codecAccessTokens: operatorTokens(settings).codecAccess,
    ...(options.stalledReaderMs !== undefined && { stalledReaderMs: options.stalledReaderMs }),
    readiness: options.readiness ?? [],
    readTaskQueueAges: options.readTaskQueueAges ?? (async () => []),
    readWorkerVersions: options.readWorkerVersions ?? (async () => null),
    logger,
  };
  const app = createApp(dependencies);
  await app.ready();
  const client = await ContractClient.of(app);

  return {
    app,
    dependencies,
    orm,
    plans,
    settings,
    commands,
    client,
    log,
    root: { ...made, key: made.apiKey },
    send: (caller, method, path, body, more = {}) =>
      client.send(method, path, { key: caller?.key, ...(body === undefined ? {} : { body }), ...more }),
    async addAccount(planName = 'hobby') {
      const email = `owner-${tail()}@example.com`;
      const other = await orm.em
        .fork()
        .transactional((em) => createAccount(em, { email, displayName: 'Owner', planName, role: 'user' }));
      return { ...other, key: other.apiKey };
    },
    addUser: (of) => addUser(orm, of),
    async addTemplate(fields) {
      const em = orm.em.fork();
      const row = em.create(Template, templateRow(fields));
      await em.flush();
      return row.templateId;
    },
    async counts() {
      const tables = ['sandboxes', 'projects', 'api_keys', 'events', 'outbox', 'idempotency_keys'];
      const rows = (await orm.em
        .fork()
        .execute(
          tables.map((name) => `select '${name}' as name, count(*)::int as n from ${name}`).join(' union all '),
        )) as {
        name: string;
        n: number;
      }[];
      return Object.fromEntries(rows.map((row) => [row.name, row.n]));
    },
    async stop() {
      await app.close();
      if (!on) await orm.close();
      await database?.drop();
    },
  };
}

async function firstAccount(orm: Orm, planName: string): Promise<MadeAccount> {
  await addHost(orm, 'local', 1000);
  const email = `root-${tail()}@example.com`;
  return (await bootstrap(orm, { email, planName, baseImage: 'builtin:base' }))!;
}

/** Adds a host with a lease that outlives the test. */
export async function addHost(orm: Orm, region: string, cpuCapacity: number): Promise<string> {
  const em = orm.em.fork();
  const host = em.create(Host, {
    hostId: newId('host'),
    region,
    regionName: region,
    cpuCapacity,
    memoryMbCapacity: cpuCapacity * 1024,
    diskGbCapacity: cpuCapacity * 20,
    leaseExpiresAt: new Date(Date.now() + 3_600_000),
  });
  await em.flush();
  return host.hostId;
}

async function addUser(orm: Orm, of: Caller): Promise<Caller> {
  const em = orm.em.fork();
  const key = makeApiKey(randomBytes(32));
  const name = `member-${tail()}`;
  const ids = { userId: newId('user'), projectId: newId('project'), keyId: newId('apiKey') };
  const { accountId } = await em.findOneOrFail(Account, { accountId: of.accountId });
  em.create(User, {
    userId: ids.userId,
    accountId,
    email: `${name}@example.com`,
    username: name,
    displayName: 'Member',
  });
  await em.flush();
  em.create(Project, {
    projectId: ids.projectId,
    accountId,
    ownerUserId: ids.userId,
    name: 'Default',
    isDefault: true,
  });
  em.create(ApiKey, {
    keyId: ids.keyId,
    accountId,
    userId: ids.userId,
    name: 'default',
    secretHash: hashApiKey(key),
    prefix: key.slice(0, 12),
  });
  await em.flush();
  return { accountId, key, ...ids };
}

function templateRow(fields: Partial<Template>) {
  return {
    templateId: newId('template'),
    name: `template-${tail()}`,
    defaultCpuCount: 1,
    defaultMemoryMb: 256,
    visibility: 'public' as const,
    templateSource: 'custom' as const,
    status: 'available' as const,
    image: 'builtin:base',
    ports: [],
    ...fields,
  };
}

/** Cheap parameters, because tests hash hundreds of passwords. */
const cheapHashes = { algorithm: 2, memoryCost: 64, timeCost: 1, parallelism: 1 };

/** For tests without Temporal. */
const noPasswordResets: PasswordResets = {
  async request() {
    throw new AppError('temporarily_unavailable', 'No mail can be sent');
  },
  passwordWasSet() {},
};

const tail = () => randomBytes(4).toString('hex');

function lines(into: string[]): Writable {
  return new Writable({
    write(chunk, _encoding, done) {
      into.push(...String(chunk).split('\n').filter(Boolean));
      done();
    },
  });
}
