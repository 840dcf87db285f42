import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import type { SandboxView } from '../../../db/sandboxes/sandbox-reads.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { remainingSeconds, timeoutAt, totals } from '../../../domain/sandboxes/clock.ts';
import { persistenceDaysRemaining, persistenceExpiresAt } from '../../../domain/sandboxes/persistence.ts';
import { unionOfPorts } from '../../../domain/sandboxes/ports.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import { turnSettings } from '../../../platform/config/turn-settings.ts';
import { presentPerson } from '../../schemas/fields.ts';
import { presentPorts } from '../../schemas/port.ts';
import { networkProxy } from './network-proxy.ts';
import { presentMounts } from './present-mounts.ts';
import type { SandboxFields } from './sandbox-schema.ts';

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
export function sandboxDomain(sandboxId: SandboxId, settings: Settings): string {
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
