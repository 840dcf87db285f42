import { z } from 'zod';
import { checkPlanLimits } from '../../../domain/billing/plans.ts';
import { patchMounts, requireAllCredentials, requireFresh } from '../../../domain/sandboxes/object-storage.ts';
import { anyUser, requirePlan } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { optional, optionalBody, queryFlag, withDefault } from '../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofStarts, success } from '../../schemas/replies.ts';
import { mountPatch, requireUsable, timeoutSeconds } from './bodies.ts';
import { fullSandbox, readSandboxRow, sandboxPath, sandboxSchema } from './reply.ts';

const connectBody = optionalBody(
  z.object({
    timeout: optional(timeoutSeconds()).describe('Counts anew from now, and may be shorter; kept when left out'),
  }),
);

/** `POST /v1/sandboxes/{sandbox_id}/connect`: makes sure that the sandbox runs. Resumes a paused one. */
export function connectSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/connect',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'connectSandbox',
      tags: ['Sandboxes'],
      summary: 'Resume a sandbox if it is paused, and read it',
      description:
        'Waits for a running operation, resumes a paused sandbox, and replies when it runs. `timeout` counts from now.',
      params: sandboxPath,
      body: connectBody,
      response: {
        200: envelope(sandboxSchema, 'The running sandbox'),
        ...failures(
          ofMutations,
          ...([
            'not_found',
            'plan_limit_exceeded',
            'sandbox_ended',
            'sandbox_busy',
            'resume_failed',
            'agent_not_answering',
          ] as const),
          ofStarts,
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await readSandboxRow(deps, request, sandboxId);
      const { timeout } = request.body;
      checkPlanLimits(requirePlan(request, deps.plans), { timeoutSeconds: timeout });
      await deps.sandboxCommands.connect(sandbox, { timeoutSeconds: timeout ?? null });
      return success(await fullSandbox(deps, request, sandboxId));
    },
  });
}

const pauseBody = optionalBody(
  z.object({
    is_async: withDefault(z.boolean(), false).describe('Reply when the sandbox is `pausing`, instead of `paused`'),
  }),
);

/** `POST /v1/sandboxes/{sandbox_id}/pause`. */
export function pauseSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/pause',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'pauseSandbox',
      tags: ['Sandboxes'],
      summary: 'Pause a running sandbox',
      description:
        'Freezes all processes. Memory, open files and disk are kept; paused time does not count as running. ' +
        'In a region whose ' +
        'sandboxes are pods of a cluster, the processes may end and only the disk is kept: a resume then ' +
        'starts the sandbox again.',
      params: sandboxPath,
      body: pauseBody,
      response: {
        200: envelope(sandboxSchema, 'The sandbox, `paused` or `pausing`'),
        ...failures(
          ofMutations,
          ...([
            'not_found',
            'sandbox_not_running',
            'sandbox_busy',
            'sandbox_ended',
            'pause_failed',
            'host_unavailable',
          ] as const),
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await readSandboxRow(deps, request, sandboxId);
      await deps.sandboxCommands.pause(sandbox, { wait: !request.body.is_async });
      return success(await fullSandbox(deps, request, sandboxId));
    },
  });
}

const resumeBody = optionalBody(
  z.object({
    is_async: withDefault(z.boolean(), false).describe('Reply when the sandbox is `resuming`, instead of `running`'),
    best_effort_oss: withDefault(z.boolean(), false).describe('Resume even if mounts fail'),
    object_storage: mountPatch.describe(
      'One of remove_all, disable_all and mounts; without it, the mounts do not change',
    ),
  }),
);

const resuming = z
  .object({ sandbox_id: z.string(), status: z.literal('resuming'), message: z.string() })
  .meta({ id: 'ResumingSandbox' });

/** `POST /v1/sandboxes/{sandbox_id}/resume`. */
export function resumeSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/resume',
    // 32 mounts with their credentials.
    config: { access: anyUser('by_role'), bodyBytes: 512 * 1024 },
    schema: {
      operationId: 'resumeSandbox',
      tags: ['Sandboxes'],
      summary: 'Resume a paused sandbox',
      description:
        'Frozen processes continue. If they were lost, for example in a restart of the host, the sandbox ' +
        'starts again on ' +
        'the same disk. A resume is checked against plan, quota and capacity like a create.',
      params: sandboxPath,
      body: resumeBody,
      response: {
        200: envelope(z.union([sandboxSchema, resuming]), 'The sandbox; with is_async its status is `resuming`'),
        ...failures(
          ofMutations,
          ...([
            'not_found',
            'sandbox_not_paused',
            'sandbox_busy',
            'sandbox_ended',
            'resume_failed',
            'agent_not_answering',
          ] as const),
          ofStarts,
          'direct_mount_not_possible',
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await readSandboxRow(deps, request, sandboxId);
      const { is_async: isAsync, best_effort_oss: bestEffort, object_storage: patch } = request.body;
      requireUsable(patch, sandbox, deps.settings);
      // The host checks its row again later. This check tells the caller before any work begins.
      if (sandbox.status === 'paused') requireFresh(patchMounts(sandbox.objectStorage, patch), bestEffort);
      const storage = { sealedPatch: deps.sealFor(sandboxId, patch), bestEffort };
      const changes = patch.kind !== 'none' || bestEffort;
      await deps.sandboxCommands.resume(sandbox, { wait: !isAsync, ...(changes && { storage }) });
      if (!isAsync) return success(await fullSandbox(deps, request, sandboxId));
      return success({ sandbox_id: sandboxId, status: 'resuming' as const, message: 'The sandbox is resuming' });
    },
  });
}

const restartBody = optionalBody(
  z.object({
    best_effort_oss: withDefault(z.boolean(), false).describe('Restart even if mounts fail or lack credentials'),
    object_storage: mountPatch.describe(
      'As for a resume. All mounts end with the processes, so each needs credentials',
    ),
  }),
);

/**
 * `POST /v1/sandboxes/{sandbox_id}/restart`: restarts a sandbox that no longer responds. No other route discards
 * running processes and keeps the disk. It needs no cooperation from inside the sandbox.
 */
export function restartSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/restart',
    config: { access: anyUser('by_role'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'restartSandbox',
      tags: ['Sandboxes'],
      summary: 'Restart a sandbox',
      description:
        'Ends the processes of a running or paused sandbox and starts it again on its disk. Memory is lost, ' +
        'the disk is kept.',
      headers: idempotencyHeaders,
      params: sandboxPath,
      body: restartBody,
      response: {
        200: envelope(sandboxSchema, 'The sandbox, running, with the reason `restarted`'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'not_found', 'sandbox_busy', 'sandbox_ended', 'restart_failed'] as const),
          ofStarts,
          'host_disk_full',
          'direct_mount_not_possible',
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await readSandboxRow(deps, request, sandboxId);
      const { best_effort_oss: bestEffort, object_storage: patch } = request.body;
      requireUsable(patch, sandbox, deps.settings);
      // The host checks its row again later. This check tells the caller before any work begins.
      if (sandbox.status === 'running' || sandbox.status === 'paused') {
        requireAllCredentials(patchMounts(sandbox.objectStorage, patch), bestEffort);
      }
      const changes = patch.kind !== 'none' || bestEffort;
      const storage = changes ? { sealedPatch: deps.sealFor(sandboxId, patch), bestEffort } : null;
      await deps.sandboxCommands.restart(sandbox, { storage });
      return success(await fullSandbox(deps, request, sandboxId));
    },
  });
}

/** Accepted for clients that send it. Both routes work from every status without it. */
const forceQuery = z.object({ force: queryFlag().describe('Accepted for compatibility; has no effect') });

/** The reply of terminate and delete. */
const ending = <S extends string>(status: S) =>
  z.object({ sandbox_id: z.string(), status: z.literal(status), note: z.string() });

/** `POST /v1/sandboxes/{sandbox_id}/terminate`: works from every status, including `failed`. */
export function terminateSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/terminate',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'terminateSandbox',
      tags: ['Sandboxes'],
      summary: 'Terminate a sandbox; it stays readable',
      description:
        'Works in every status. Cancels a running operation and removes the disk; the sandbox stays readable. ' +
        'A sandbox that has ' +
        'ended is 200.',
      params: sandboxPath,
      querystring: forceQuery,
      response: {
        200: envelope(ending('terminated'), 'It was already terminated'),
        202: envelope(ending('termination_in_progress'), 'It is being terminated'),
        ...failures(ofMutations, 'not_found', 'sandbox_busy'),
      },
    },
    handler: async (request, reply) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await readSandboxRow(deps, request, sandboxId);
      const { alreadyTerminated } = await deps.sandboxCommands.terminate(sandbox, { forget: false });
      if (alreadyTerminated) {
        const note = 'The sandbox has already ended';
        return reply
          .code(200)
          .send(success({ sandbox_id: sandboxId, status: 'terminated', note }, 'The sandbox is already terminated'));
      }
      const note = 'Its processes are being ended; then its disk is removed';
      return reply
        .code(202)
        .send(
          success(
            { sandbox_id: sandboxId, status: 'termination_in_progress', note },
            'The sandbox is being terminated',
          ),
        );
    },
  });
}

/** `DELETE /v1/sandboxes/{sandbox_id}`: works from every status. Afterwards the sandbox answers 404. */
export function deleteSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/sandboxes/:sandbox_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteSandbox',
      tags: ['Sandboxes'],
      summary: 'Delete a sandbox; a sandbox that has not ended is ended first',
      description:
        'Works in every status. Cancels a running operation and removes the disk; then the sandbox is 404 and ' +
        'in no list.',
      params: sandboxPath,
      querystring: forceQuery,
      response: {
        202: envelope(ending('deletion_in_progress'), 'The sandbox is being deleted'),
        ...failures(ofMutations, 'not_found', 'sandbox_busy'),
      },
    },
    handler: async (request, reply) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await readSandboxRow(deps, request, sandboxId);
      await deps.sandboxCommands.terminate(sandbox, { forget: true });
      const note = 'It is 404 when its data is removed';
      return reply
        .code(202)
        .send(success({ sandbox_id: sandboxId, status: 'deletion_in_progress', note }, 'The sandbox is being deleted'));
    },
  });
}
