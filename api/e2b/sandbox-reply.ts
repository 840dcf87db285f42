import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { notFound } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { persistenceExpiresAt, timeoutAt } from '../../domain/sandboxes/clock.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { readSandboxRow } from '../routes/sandboxes/reply.ts';
import { time } from '../schemas/fields.ts';
import { clientId, e2bDomain, e2bState, e2bStates, e2bTemplateName, envdVersion } from './names.ts';

const identity = {
  sandboxID: z.string(),
  templateID: z.string(),
  alias: z.string(),
  clientID: z.string(),
  envdVersion: z.string(),
};

/** The reply of create, connect and resume. */
export const connectedSandbox = z.object({
  ...identity,
  envdAccessToken: z.string().optional(),
  trafficAccessToken: z.string().optional(),
  domain: z.string(),
});

/** An item of a list. */
export const listedSandbox = z.object({
  ...identity,
  startedAt: time(),
  endAt: time(),
  cpuCount: z.int(),
  memoryMB: z.int(),
  diskSizeMB: z.int(),
  metadata: z.record(z.string(), z.string()),
  state: z.enum(e2bStates),
});

/** The reply of get. */
export const sandboxDetail = listedSandbox.extend({
  envdAccessToken: z.string().optional(),
  allowInternetAccess: z.boolean(),
  domain: z.string(),
  lifecycle: z.object({ autoResume: z.boolean(), onTimeout: z.enum(['kill', 'pause']) }),
});

/**
 * The sandbox in the request, which runs, is paused, or is on its way there.
 * @throws {AppError} `not_found`, also when it has ended
 */
export async function readLivingSandbox(
  deps: ApiDependencies,
  request: FastifyRequest,
  sandboxId: SandboxId,
): Promise<Sandbox> {
  const sandbox = await readSandboxRow(deps, request, sandboxId);
  if (e2bState(sandbox.status) === null) throw notFound('Sandbox');
  return sandbox;
}

export function presentConnected(deps: ApiDependencies, sandbox: Sandbox): z.output<typeof connectedSandbox> {
  return { ...presentIdentity(sandbox), ...presentTokens(deps, sandbox), domain: e2bDomain(deps.settings) };
}

export function presentListed(sandbox: Sandbox, now = new Date()): z.output<typeof listedSandbox> {
  return {
    ...presentIdentity(sandbox),
    startedAt: sandbox.startedAt ?? sandbox.createdAt,
    endAt: endsAt(sandbox, now),
    cpuCount: sandbox.cpuCount,
    memoryMB: sandbox.memoryMb,
    diskSizeMB: sandbox.storageGb * 1024,
    metadata: sandbox.metadata,
    state: e2bState(sandbox.status)!,
  };
}

export function presentDetail(deps: ApiDependencies, sandbox: Sandbox): z.output<typeof sandboxDetail> {
  return {
    ...presentListed(sandbox),
    ...presentToken(deps, sandbox),
    allowInternetAccess: sandbox.allowInternetAccess,
    domain: e2bDomain(deps.settings),
    lifecycle: { autoResume: false, onTimeout: sandbox.autoPause ? 'pause' : 'kill' },
  };
}

function presentIdentity(sandbox: Sandbox) {
  return {
    sandboxID: sandbox.sandboxId,
    templateID: sandbox.templateId,
    alias: e2bTemplateName(sandbox.templateName),
    clientID: clientId,
    envdVersion,
  };
}

/**
 * The token of the agent. SDKs send it to the code interpreter as the token of traffic, in requests that do not carry
 * the agent's.
 */
export function presentTokens(deps: ApiDependencies, sandbox: Sandbox) {
  const { envdAccessToken } = presentToken(deps, sandbox);
  return envdAccessToken ? { envdAccessToken, trafficAccessToken: envdAccessToken } : {};
}

/** The token of the agent. A sandbox that is not secure needs none. */
function presentToken({ deriveAgentToken }: ApiDependencies, { sandboxId, secure, secretKeyNumber }: Sandbox) {
  return { envdAccessToken: secure ? deriveAgentToken(sandboxId, secretKeyNumber) : undefined };
}

/** When the timeout passes. For a paused sandbox, when it is removed, or when it was paused if that never happens. */
function endsAt(sandbox: Sandbox, now: Date): Date {
  const { status, timeoutFrom, timeoutSeconds, pausedAt, persistenceDays } = sandbox;
  if (status === 'paused') return persistenceExpiresAt(pausedAt ?? null, persistenceDays ?? null) ?? pausedAt ?? now;
  // A sandbox that starts or resumes gets its whole timeout.
  return timeoutAt(status, timeoutFrom ?? null, timeoutSeconds) ?? new Date(now.getTime() + timeoutSeconds * 1000);
}
