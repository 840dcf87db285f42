import type { PayloadCodec } from '@temporalio/common';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Logger } from 'pino';
import type { PlanCatalog } from '../db/billing/plans.ts';
import type { Orm } from '../db/orm.ts';
import type { SandboxId, TemplateId } from '../domain/ids.ts';
import type { PaymentProcessor } from '../integrations/payments/processor.ts';
import type { PlatformRegistry } from '../integrations/registry/platform-registry.ts';
import type { WebhookKeys } from '../integrations/webhooks/keys.ts';
import type { Settings } from '../platform/config/settings.ts';
import type { TaskQueueAge } from '../platform/temporal/task-queue-ages.ts';
import type { WorkerVersion } from '../platform/temporal/worker-deployment.ts';
import type { ListCursors } from './list-cursors.ts';
import type { IdentityProviders } from './routes/accounts/oidc/identity-providers.ts';
import type { PendingSignIns } from './routes/accounts/oidc/pending-sign-ins.ts';
import type { AccessTokens } from './routes/accounts/sign-in/access-tokens.ts';
import type { PasswordHashes } from './routes/accounts/sign-in/password-hashes.ts';
import type { PasswordResets } from './routes/accounts/sign-in/password-resets.ts';
import type { CardLinks } from './routes/billing/card-links.ts';
import type { SandboxCommands } from './routes/sandboxes/commands.ts';
import type { SandboxAgents } from './routes/sandboxes/exec/agents.ts';
import type { ExecutionEndWatch } from './routes/sandboxes/exec/execution-end-watch.ts';
import type { ExecTokens } from './routes/sandboxes/exec/tokens.ts';
import type { SandboxNews } from './routes/sandboxes/sandbox-news.ts';

/** The dependencies of the API on its process. */
export interface ApiDependencies {
  orm: Orm;
  plans: PlanCatalog;
  settings: Settings;
  sandboxCommands: SandboxCommands;
  sandboxNews: Pick<SandboxNews, 'expect'>;
  /** The token of a sandbox's agent for the header `X-Access-Token`. It is derived and never stored. */
  deriveAgentToken(sandboxId: SandboxId, secretKeyNumber: number): string;
  /** The number of the secret key for what is made now. */
  secretKeyNumber(): number;
  /** Encrypts a document so that only the sandbox's host can decrypt it. */
  sealFor(sandboxId: SandboxId, document: unknown): string;
  /** Encrypts the password of an external registry for the import of the template. */
  sealRegistryPassword(templateId: TemplateId, password: string): string;
  /** Null: not configured. */
  registry: PlatformRegistry | null;
  /** Null: not configured. */
  paymentProcessor: PaymentProcessor | null;
  /** The keys with which a gateway signs the address of its client. */
  clientAddressKeys(): Buffer[];
  listCursors: ListCursors;
  cardLinks: CardLinks;
  sandboxAgents: SandboxAgents;
  executionEndWatch: ExecutionEndWatch;
  execTokens: ExecTokens;
  accessTokens: AccessTokens;
  passwords: PasswordHashes;
  passwordResets: PasswordResets;
  identityProviders: IdentityProviders;
  pendingSignIns: PendingSignIns;
  webhookKeys: WebhookKeys;
  /** Decrypts workflow payloads for operators. */
  codec: PayloadCodec;
  /** The access tokens of the codec server. */
  codecAccessTokens: readonly string[];
  /** How long the reader of an exec stream may accept no data, including keepalives. The default is one minute. */
  stalledReaderMs?: number;
  readiness: ReadinessCheck[];
  /** How long tasks wait for a control worker. */
  readTaskQueueAges(): Promise<TaskQueueAge[]>;
  /** The versions of the control workers, newest first. Null: they have none. */
  readWorkerVersions(): Promise<WorkerVersion[] | null>;
  logger: Logger;
}

/** A dependency that the API needs to serve requests. `check` rejects when it is unreachable. */
export interface ReadinessCheck {
  name: string;
  check(): Promise<unknown>;
}

/** The Fastify instance as routes see it: requests and replies are typed by their zod schemas. */
export type Api = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>;
