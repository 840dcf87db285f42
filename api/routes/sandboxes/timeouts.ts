import { z } from 'zod';
import { checkPlanLimits } from '../../../domain/billing/plans.ts';
import { remainingSeconds } from '../../../domain/sandboxes/clock.ts';
import { anyUser, requirePlan } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, messageEnvelope, ofMutations, success, successMessage } from '../../schemas/replies.ts';
import { timeoutBody } from './bodies.ts';
import { readSandboxRow, sandboxPath } from './reply.ts';

/** `PUT /v1/sandboxes/{sandbox_id}`: sets a timeout that must exceed the current one. */
export function raiseSandboxTimeout(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/sandboxes/:sandbox_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'updateSandbox',
      tags: ['Sandboxes'],
      summary: "Raise a sandbox's timeout",
      description:
        'Accepts only a longer timeout; otherwise the error is `timeout_not_raised`. `POST …/timeout` also ' +
        'shortens.',
      params: sandboxPath,
      body: timeoutBody,
      response: {
        200: messageEnvelope('The timeout is raised'),
        ...failures(ofMutations, 'not_found', 'plan_limit_exceeded', 'timeout_not_raised', 'sandbox_ended'),
      },
    },
    handler: async (request) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      const { timeout } = request.body;
      checkPlanLimits(requirePlan(request, deps.plans), { timeoutSeconds: timeout });
      await deps.sandboxCommands.setTimeout(sandbox, { timeoutSeconds: timeout, mustRaise: true });
      return successMessage(`The timeout is now ${timeout} seconds`);
    },
  });
}

const timeoutStanding = z.object({
  timeout: z.int(),
  timeout_at: time().nullable().describe('Null while it does not run'),
  remaining_time: z.int().min(0).nullable().describe('Seconds; null while it does not run'),
  applies_to: z.enum(['current_phase', 'next_phase']),
  note: z.string(),
});

const notes = {
  current_phase: 'The new timeout counts from the beginning of the current running phase',
  next_phase: 'The new timeout counts from the time when the sandbox runs again',
};

/** `POST /v1/sandboxes/{sandbox_id}/timeout`: sets a longer or shorter timeout. */
export function setSandboxTimeout(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/timeout',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'setSandboxTimeout',
      tags: ['Sandboxes'],
      summary: "Set a sandbox's timeout",
      description:
        'Counts from the start of the running phase. One that has passed already is `timeout_already_passed`. For a ' +
        'sandbox that does not run, it applies from the next phase on.',
      params: sandboxPath,
      body: timeoutBody,
      response: {
        200: envelope(timeoutStanding, 'The timeout and the remaining time'),
        ...failures(ofMutations, 'not_found', 'plan_limit_exceeded', 'timeout_already_passed', 'sandbox_ended'),
      },
    },
    handler: async (request) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      const { timeout } = request.body;
      checkPlanLimits(requirePlan(request, deps.plans), { timeoutSeconds: timeout });
      const applied = await deps.sandboxCommands.setTimeout(sandbox, { timeoutSeconds: timeout, mustRaise: false });
      const timeoutAt = applied.timeoutAtMs === null ? null : new Date(applied.timeoutAtMs);
      const data = {
        timeout: applied.timeoutSeconds,
        timeout_at: timeoutAt,
        remaining_time: remainingSeconds(timeoutAt, new Date()),
        applies_to: applied.appliesTo,
        note: notes[applied.appliesTo],
      };
      const message =
        data.remaining_time === null
          ? `The timeout will be ${data.timeout} seconds when the sandbox runs again`
          : `The timeout is now ${data.timeout} seconds; ${data.remaining_time} are left`;
      return success(data, message);
    },
  });
}
