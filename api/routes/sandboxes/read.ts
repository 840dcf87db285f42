import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { findSandboxView, type SandboxView } from '../../../db/sandboxes/sandbox-reads.ts';
import { notFound } from '../../../domain/errors.ts';
import { isId, type SandboxId } from '../../../domain/ids.ts';
import { remainingSeconds, timeoutAt, totals } from '../../../domain/sandboxes/clock.ts';
import type { MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import { persistenceDaysRemaining, persistenceExpiresAt } from '../../../domain/sandboxes/persistence.ts';
import { unionOfPorts } from '../../../domain/sandboxes/ports.ts';
import { sandboxProxy } from '../../../platform/config/sandbox-proxy.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import { turnSettings } from '../../../platform/config/turn-settings.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { presentPerson, time } from '../../schemas/fields.ts';
import { presentPorts } from '../../schemas/port.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import {
  type SandboxFields,
  sandboxPath,
  sandboxReason,
  sandboxSchema,
  sandboxStatus,
  sandboxSubstatus,
} from './schema.ts';

/** `GET /v1/sandboxes/{sandbox_id}` with every field. */
export function getSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandbox',
      tags: ['Sandboxes'],
      summary: 'Read a sandbox',
      description:
        'Returns all fields, also of a sandbox that has ended. A deleted sandbox is 404 when its data is removed.',
      params: sandboxPath,
      response: { 200: envelope(sandboxSchema, 'The sandbox'), ...failures('not_found') },
    },
    handler: async (request) => success(await fullSandbox(deps, request, request.params.sandbox_id)),
  });
}

const statusSchema = z.object({
  sandbox_id: z.string(),
  status: sandboxStatus,
  substatus: sandboxSubstatus.nullable(),
  reason: sandboxReason.nullable(),
  updated_at: time(),
});

/** `GET /v1/sandboxes/{sandbox_id}/status`: for polling. */
export function getSandboxStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/status',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandboxStatus',
      tags: ['Sandboxes'],
      summary: "Read a sandbox's status",
      description: 'The cheapest route for polling.',
      params: sandboxPath,
      response: { 200: envelope(statusSchema, 'Its status'), ...failures('not_found') },
    },
    handler: async (request) => {
      const sandbox = await sandboxOf(deps, request, request.params.sandbox_id);
      return success({
        sandbox_id: sandbox.sandboxId,
        status: sandbox.status,
        substatus: sandbox.substatus ?? null,
        reason: sandbox.reason ?? null,
        updated_at: sandbox.updatedAt,
      });
    },
  });
}

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
    ? await findSandboxView(deps.orm.em.fork(), scopeOf(request), sandboxId)
    : null;
  if (!view) throw notFound('Sandbox');
  return view;
}

/** The row that a command applies to. @throws {AppError} `not_found` */
export async function sandboxOf(
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
    ...identityOf(sandbox),
    template_exists: view.templateExists,
    project_name: view.projectName,
    owner,
    account_owner: view.accountOwner && presentPerson(view.accountOwner),
    userName: owner.display_name,
    userEmail: owner.email,
    ...accessOf(sandbox, settings),
    resources: {
      cpu: sandbox.cpuCount,
      memory: sandbox.memoryMb,
      storage: sandbox.storageGb,
      bandwidth: view.bandwidthMbps,
    },
    ...networkProxy(sandbox.allowInternetAccess, settings),
    ...presentPorts(view),
    ...webrtcTurn(sandbox, settings),
    ...timesOf(sandbox, now),
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

function identityOf(sandbox: Sandbox) {
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

function accessOf(sandbox: Sandbox, settings: Settings) {
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
  return clockOf(sandbox, now).totalRunningSeconds;
}

function clockOf({ phaseKind, phaseSince, runningMs, pausedMs }: Sandbox, now: Date) {
  const phase = phaseKind && phaseSince ? { kind: phaseKind, since: phaseSince } : null;
  return totals({ runningMs, pausedMs, phase }, now);
}

function timesOf(sandbox: Sandbox, now: Date) {
  const clock = clockOf(sandbox, now);
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
