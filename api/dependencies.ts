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
import type { Settings } from '../config/settings.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import type { SandboxId, TemplateId } from '../domain/ids.ts';
import type { PaymentProcessor } from '../payments/processor.ts';
import type { PlatformRegistry } from '../registry/platform-registry.ts';
import type { WebhookKeys } from '../webhooks/keys.ts';
import type { AccessTokens } from './access-tokens.ts';
import type { CardLinks } from './card-links.ts';
import type { ExecTokens } from './exec-tokens.ts';
import type { IdentityProviders } from './oidc/identity-providers.ts';
import type { PendingSignIns } from './oidc/pending-sign-ins.ts';
import type { PasswordHashes } from './password-hashes.ts';
import type { PasswordResets } from './password-resets.ts';
import type { RunEndWatch } from './run-end-watch.ts';
import type { SandboxAgents } from './sandbox-agents.ts';
import type { SandboxCommands } from './sandbox-commands.ts';

/** Everything the API needs from the process that hosts it. */
export interface ApiDependencies {
  orm: Orm;
  plans: PlanCatalog;
  settings: Settings;
  sandboxCommands: SandboxCommands;
  /** The token `X-Access-Token` must carry to a sandbox's agent; derived, never stored. */
  deriveAgentToken(sandboxId: SandboxId): string;
  /** Encrypts for the sandbox's host alone. */
  sealFor(sandboxId: SandboxId, document: unknown): string;
  /** Encrypts the password of an external registry, for the import of the template. */
  sealRegistryPassword(templateId: TemplateId, password: string): string;
  /** Null: not configured. */
  registry: PlatformRegistry | null;
  /** Null: the settings name none. */
  paymentProcessor: PaymentProcessor | null;
  cardLinks: CardLinks;
  sandboxAgents: SandboxAgents;
  runEndWatch: RunEndWatch;
  execTokens: ExecTokens;
  accessTokens: AccessTokens;
  passwords: PasswordHashes;
  passwordResets: PasswordResets;
  identityProviders: IdentityProviders;
  pendingSignIns: PendingSignIns;
  webhookKeys: WebhookKeys;
  /** Signs the cookie that belongs to the form of a page. */
  formKey: Buffer;
  /** Decrypts workflow payloads for operators. */
  codec: PayloadCodec;
  /** Opens the codec server. */
  codecAccessToken: string;
  /** How long a reader of an exec stream may take nothing, not even a keepalive. A minute by default. */
  stalledReaderMs?: number;
  readiness: ReadinessCheck[];
  logger: Logger;
}

/** A dependency without which the API cannot serve. `check` rejects when it cannot be reached. */
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
