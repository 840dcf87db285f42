import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { findSandboxView, type SandboxView } from '../../../db/sandboxes/sandbox-reads.ts';
import { notFound } from '../../../domain/errors.ts';
import { isId, type SandboxId } from '../../../domain/ids.ts';
import {
  persistenceDaysRemaining,
  persistenceExpiresAt,
  remainingSeconds,
  timeoutAt,
  totals,
} from '../../../domain/sandboxes/clock.ts';
import type { MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import { unionOfPorts } from '../../../domain/sandboxes/ports.ts';
import { lifecycleOutcomes, sandboxReasons, sandboxStatuses } from '../../../domain/sandboxes/state.ts';
import { sandboxProxy } from '../../../platform/config/sandbox-proxy.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import { turnSettings } from '../../../platform/config/turn-settings.ts';
import { requireScope } from '../../access.ts';
import type { ApiDependencies } from '../../dependencies.ts';
import { givenId, personSchema, presentPerson, time } from '../../schemas/fields.ts';
import { portSchema, presentPorts } from '../../schemas/port.ts';

/** The path of every route on one sandbox. A text that is not an id gives 404 and not a validation error. */
export const sandboxPath = z.object({ sandbox_id: givenId('sandbox').describe('`sbx-…`') });

export const sandboxStatus = z.enum(sandboxStatuses);
export const sandboxSubstatus = z.enum([
  'allocating',
  'deploying',
  'initializing',
  'waiting_ready',
  'cleaning_resources',
  'cleaning_data',
]);
export const sandboxReason = z.enum(sandboxReasons);

/** A mount of object storage, without its credentials. */
const mountSchema = z
  .object({
    slot: z.int().min(0),
    state: z.enum(['active', 'disabled', 'free']),
    uri: z.string(),
    mount_point: z.string(),
    region: z.string().optional(),
    endpoint: z.string().optional(),
    short_lived: z.boolean().optional(),
  })
  .meta({ id: 'Mount' });

const failureSchema = z
  .object({
    message: z.string(),
    exit_code: z.int().nullable(),
    out_of_memory: z.boolean(),
    command_output: z.string().describe("The last 8 KiB of the command's output"),
  })
  .meta({ id: 'SandboxFailure' });

const resourcesSchema = z
  .object({
    cpu: z.int().describe('Cores'),
    memory: z.int().describe('MB'),
    storage: z.int().describe('GB'),
    bandwidth: z.int().nullable().describe('Mbit/s to the internet, and the same rate from it; null: not limited'),
  })
  .meta({ id: 'SandboxResources' });

const strings = z.record(z.string(), z.string());

/** Every field of a sandbox in any reply. Each reply selects its own fields. */
export const allFields = z.object({
  sandbox_id: z.string(),
  name: z.string(),
  description: z.string(),
  status: sandboxStatus,
  substatus: sandboxSubstatus.nullable(),
  reason: sandboxReason.nullable().describe('The reason of this status'),
  template_id: z.string(),
  template_name: z.string().describe('The name of the template when the sandbox was made'),
  template_exists: z.boolean(),
  project_id: z.string(),
  project_name: z.string(),
  owner: personSchema,
  account_owner: personSchema.nullable().describe("The account's root user"),
  owner_user_id: z.string(),
  region: z.string(),
  visibility: z.literal('private').describe('Only its owner and the account root see it'),
  user_account_id: z.string().describe("Legacy: the owner's account"),
  userName: z.string().describe("Legacy: the owner's display name"),
  userEmail: z.string().describe("Legacy: the owner's e-mail"),

  cpu_count: z.int(),
  memory_mb: z.int(),
  storage_gb: z.int(),
  resources: resourcesSchema,
  timeout: z.int().describe('Seconds'),
  auto_pause: z.boolean(),
  secure: z.boolean(),
  allow_internet_access: z.boolean(),
  sandbox_domain: z.string(),
  sandbox_domain_internal: z.string().nullable().describe("The agent's address and port inside the platform's network"),
  web_terminal_available: z.boolean(),
  web_files_available: z.boolean(),
  envd_access_token: z.string(),

  metadata: strings,
  env_vars: strings,
  object_storage: z.array(mountSchema).nullable(),
  object_storage_single: mountSchema.nullable(),
  object_storage_direct_mount: z.boolean(),
  object_storage_s3fs_path: z.string(),
  ports: z.array(portSchema),
  template_ports: z.array(portSchema),
  custom_ports: z.array(portSchema),
  template_custom_command: z.string().nullable(),
  template_ready_command: z.string().nullable(),
  template_source: z.enum(['platform_family', 'custom']),

  created_at: time(),
  updated_at: time(),
  started_at: time().nullable(),
  stopped_at: time().nullable(),
  ended_at: time().nullable(),
  timeout_at: time().nullable(),
  remaining_seconds: z.int().min(0).nullable(),
  paused_at: time().nullable(),
  pausing_at: time().nullable(),
  resumed_at: time().nullable(),
  uptime: z.int().min(0).describe('Seconds it has run, without pauses'),
  total_paused_seconds: z.int().min(0),
  total_running_seconds: z.int().min(0),
  actual_total_paused_seconds: z.int().min(0).describe('Finished phases only'),
  actual_total_running_seconds: z.int().min(0).describe('Finished phases only'),
  lifecycle_outcome: z.enum(lifecycleOutcomes).nullable(),
  last_accessed_at: time().nullable().describe('To the minute'),

  persistence_days: z.int().nullable(),
  persistence_expires_at: time().nullable(),
  persistence_days_remaining: z.int().min(0).nullable(),
  network_proxy: z
    .object({
      proxy_url: z.string(),
      proxy_configs: z.object({ host: z.string(), port: z.int(), username: z.string(), password: z.string() }),
    })
    .optional(),
  webrtc_turn: z
    .object({
      turn_public_host: z.string(),
      turn_public_port: z.int(),
      ports: z.array(z.int()).describe('Its WEBRTC ports'),
    })
    .optional()
    .describe('The TURN server for peers of its WEBRTC ports; another route returns their credential'),
  failure: failureSchema.nullable().describe('Details of a failure; kept after its data is removed'),
});

type SandboxFields = z.output<typeof allFields>;

/** The full object: get, connect, pause and resume. */
export const sandboxSchema = allFields.meta({ id: 'Sandbox' });

/**
 * The sandbox in the request, with its current row.
 * @throws {AppError} `not_found`
 */
export async function readSandbox(
  deps: ApiDependencies,
  request: FastifyRequest,
  sandboxId: SandboxId,
): Promise<SandboxView> {
  const view = isId('sandbox', sandboxId)
    ? await findSandboxView(deps.orm.em.fork(), requireScope(request), sandboxId)
    : null;
  if (!view) throw notFound('Sandbox');
  return view;
}

/** The row that a command applies to. @throws {AppError} `not_found` */
export async function readSandboxRow(
  deps: ApiDependencies,
  request: FastifyRequest,
  sandboxId: SandboxId,
): Promise<Sandbox> {
  return (await readSandbox(deps, request, sandboxId)).sandbox;
}

/**
 * Every field of the current row, read after a command.
 * @throws {AppError} `not_found`
 */
export async function fullSandbox(
  deps: ApiDependencies,
  request: FastifyRequest,
  sandboxId: SandboxId,
): Promise<SandboxFields> {
  const view = await readSandbox(deps, request, sandboxId);
  return {
    ...presentSandbox(view, deps.settings),
    envd_access_token: deps.deriveAgentToken(sandboxId, view.sandbox.secretKeyNumber),
  };
}

/** The fields of a sandbox at `now`, without its token. */
export function presentSandbox(
  view: SandboxView,
  settings: Settings,
  now = new Date(),
): Omit<SandboxFields, 'envd_access_token'> {
  const { sandbox } = view;
  const owner = presentPerson(view.owner);
  return {
    ...presentIdentity(sandbox),
    template_exists: view.templateExists,
    project_name: view.projectName,
    owner,
    account_owner: view.accountOwner && presentPerson(view.accountOwner),
    userName: owner.display_name,
    userEmail: owner.email,
    ...presentAccess(sandbox, settings),
    resources: {
      cpu: sandbox.cpuCount,
      memory: sandbox.memoryMb,
      storage: sandbox.storageGb,
      bandwidth: view.bandwidthMbps,
    },
    ...networkProxy(sandbox.allowInternetAccess, settings),
    ...presentPorts(view),
    ...webrtcTurn(sandbox, settings),
    ...presentTimes(sandbox, now),
    metadata: sandbox.metadata,
    env_vars: sandbox.envVars,
    ...presentMounts(sandbox.objectStorage),
    object_storage_direct_mount: sandbox.directMount,
    object_storage_s3fs_path: sandbox.s3fsPath,
    template_custom_command: sandbox.templateCustomCommand ?? null,
    template_ready_command: sandbox.templateReadyCommand ?? null,
    template_source: sandbox.templateSource as SandboxFields['template_source'],
    lifecycle_outcome: sandbox.lifecycleOutcome ?? null,
    failure: sandbox.failure
      ? {
          message: sandbox.failure.message,
          exit_code: sandbox.failure.exitCode,
          out_of_memory: sandbox.failure.outOfMemory,
          command_output: sandbox.failure.commandOutput,
        }
      : null,
  };
}

/** `<sandbox_id>.<base domain>[:port]`. */
function sandboxDomain(sandboxId: SandboxId, settings: Settings): string {
  const port = settings.PLATFORM_GATEWAY_PUBLIC_PORT ?? settings.PLATFORM_GATEWAY_PORT;
  const domain = `${sandboxId}.${settings.PLATFORM_BASE_DOMAIN}`;
  return port === 443 || port === 80 ? domain : `${domain}:${port}`;
}

function presentIdentity(sandbox: Sandbox) {
  return {
    sandbox_id: sandbox.sandboxId,
    name: sandbox.name,
    description: sandbox.description,
    status: sandbox.status,
    substatus: sandbox.substatus ?? null,
    reason: sandbox.reason ?? null,
    template_id: sandbox.templateId,
    template_name: sandbox.templateName,
    project_id: sandbox.projectId,
    owner_user_id: sandbox.ownerUserId,
    region: sandbox.region,
    visibility: 'private' as const,
    user_account_id: sandbox.accountId,
  };
}

function presentAccess(sandbox: Sandbox, settings: Settings) {
  return {
    cpu_count: sandbox.cpuCount,
    memory_mb: sandbox.memoryMb,
    storage_gb: sandbox.storageGb,
    timeout: sandbox.timeoutSeconds,
    auto_pause: sandbox.autoPause,
    secure: sandbox.secure,
    allow_internet_access: sandbox.allowInternetAccess,
    sandbox_domain: sandboxDomain(sandbox.sandboxId, settings),
    sandbox_domain_internal: sandbox.agentAddress ? `${sandbox.agentAddress}:${sandbox.agentPort}` : null,
    // The gateway serves `/terminal` and `/files` of every running sandbox.
    web_terminal_available: sandbox.status === 'running',
    web_files_available: sandbox.status === 'running',
  };
}

/**
 * The address of the TURN server for peers of WEBRTC ports. Empty if the sandbox has no such port, or the platform no
 * TURN server.
 */
function webrtcTurn({ templatePorts, customPorts }: Sandbox, settings: Settings) {
  const turn = turnSettings(settings);
  const ports = unionOfPorts(templatePorts, customPorts).filter((port) => port.protocol === 'WEBRTC');
  if (!turn || ports.length === 0) return {};
  const { host, port } = turn.publicAddress;
  return { webrtc_turn: { turn_public_host: host, turn_public_port: port, ports: ports.map((item) => item.port) } };
}

/** How long the sandbox has run, without its pauses. */
export function uptimeSeconds(sandbox: Sandbox, now: Date): number {
  return computeTotals(sandbox, now).totalRunningSeconds;
}

function computeTotals({ phaseKind, phaseSince, runningMs, pausedMs }: Sandbox, now: Date) {
  const phase = phaseKind && phaseSince ? { kind: phaseKind, since: phaseSince } : null;
  return totals({ runningMs, pausedMs, phase }, now);
}

function presentTimes(sandbox: Sandbox, now: Date) {
  const clock = computeTotals(sandbox, now);
  const deadline = timeoutAt(sandbox.status, sandbox.timeoutFrom ?? null, sandbox.timeoutSeconds);
  const isKept = sandbox.status === 'paused' || sandbox.status === 'resuming';
  const expiresAt = persistenceExpiresAt((isKept && sandbox.pausedAt) || null, sandbox.persistenceDays ?? null);
  return {
    created_at: sandbox.createdAt,
    updated_at: sandbox.updatedAt,
    started_at: sandbox.startedAt ?? null,
    stopped_at: sandbox.stoppedAt ?? null,
    ended_at: sandbox.endedAt ?? null,
    timeout_at: deadline,
    remaining_seconds: remainingSeconds(deadline, now),
    paused_at: sandbox.pausedAt ?? null,
    pausing_at: sandbox.pausingAt ?? null,
    resumed_at: sandbox.resumedAt ?? null,
    uptime: clock.totalRunningSeconds,
    total_paused_seconds: clock.totalPausedSeconds,
    total_running_seconds: clock.totalRunningSeconds,
    actual_total_paused_seconds: clock.actualTotalPausedSeconds,
    actual_total_running_seconds: clock.actualTotalRunningSeconds,
    last_accessed_at: sandbox.lastAccessedAt ?? null,
    persistence_days: sandbox.persistenceDays ?? null,
    persistence_expires_at: expiresAt,
    persistence_days_remaining: persistenceDaysRemaining(expiresAt, now),
  };
}

/** A sandbox's mounts. Null if it has none. Free slots are shown only if there are other slots. */
function presentMounts(slots: readonly MountSlot[]): Pick<SandboxFields, 'object_storage' | 'object_storage_single'> {
  const taken = slots.filter((slot) => slot.state !== 'free');
  return {
    object_storage: taken.length > 0 ? slots.map(presentMount) : null,
    object_storage_single: taken.length === 1 ? presentMount(taken[0]!) : null,
  };
}

function presentMount({ slot, state, uri, mountPoint, region, endpoint, shortLived }: MountSlot) {
  return {
    slot,
    state,
    uri,
    mount_point: mountPoint,
    ...(region !== null && { region }),
    ...(endpoint !== null && { endpoint }),
    ...(shortLived && { short_lived: true }),
  };
}

/** The proxy of sandboxes that may reach the internet. Empty if the operator configured none. */
export function networkProxy(allowInternetAccess: boolean, settings: Settings): Pick<SandboxFields, 'network_proxy'> {
  const proxy = allowInternetAccess ? sandboxProxy(settings) : null;
  if (!proxy) return {};
  const { host, port, username, password } = proxy;
  return { network_proxy: { proxy_url: proxy.url, proxy_configs: { host, port, username, password } } };
}
