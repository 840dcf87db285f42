import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { checkPlanLimits } from '../../domain/billing/plans.ts';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { timeoutAt } from '../../domain/sandboxes/clock.ts';
import { anyUser, requirePlan } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { sandboxPath } from '../routes/sandboxes/reply.ts';
import { optional, optionalBody, withDefault } from '../schemas/fields.ts';
import { e2bTimeout, noMemory, unsupported } from './fields.ts';
import { e2bState } from './names.ts';
import {
  connectedSandbox,
  presentConnected,
  presentDetail,
  readLivingSandbox,
  sandboxDetail,
} from './sandbox-reply.ts';

/** `GET /sandboxes/{sandboxID}`. */
export function getE2bSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/sandboxes/:sandbox_id`,
    config: { access: anyUser('by_role') },
    schema: { hide: true, params: sandboxPath, response: { 200: sandboxDetail } },
    handler: async (request) => presentDetail(deps, await readLivingSandbox(deps, request, request.params.sandbox_id)),
  });
}

/** `DELETE /sandboxes/{sandboxID}`: ends it. It stays readable under `/v1`, as after a terminate. */
export function killE2bSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: `${e2bPrefix}/sandboxes/:sandbox_id`,
    config: { access: anyUser('by_role') },
    schema: { hide: true, operationId: 'terminateSandbox', params: sandboxPath, response: { 204: z.null() } },
    handler: async (request, reply) => {
      const sandbox = await readLivingSandbox(deps, request, request.params.sandbox_id);
      await deps.sandboxCommands.terminate(sandbox, { forget: false });
      return reply.code(204).send(null);
    },
  });
}

const pauseBody = optionalBody(z.object({ memory: unsupported((value) => value === true, noMemory) }));

/** `POST /sandboxes/{sandboxID}/pause`: 409 if it is paused already. */
export function pauseE2bSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: `${e2bPrefix}/sandboxes/:sandbox_id/pause`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      operationId: 'pauseSandbox',
      params: sandboxPath,
      body: pauseBody,
      response: { 204: z.null() },
    },
    handler: async (request, reply) => {
      const sandbox = await readLivingSandbox(deps, request, request.params.sandbox_id);
      await deps.sandboxCommands.pause(sandbox, { wait: true });
      return reply.code(204).send(null);
    },
  });
}

const memory = withDefault(z.boolean(), true);
const connectVersions = [
  { url: '/sandboxes/:sandbox_id/connect', body: z.object({ timeout: e2bTimeout(), memory }) },
  {
    url: '/v2/sandboxes/:sandbox_id/connect',
    body: optionalBody(z.object({ timeout: withDefault(e2bTimeout(), 300), memory })),
  },
] as const;

/**
 * `POST /sandboxes/{sandboxID}/connect`, and its second version, which has a default timeout: resumes a paused sandbox.
 * The timeout of a running one is only extended.
 */
export function connectE2bSandbox(api: Api, deps: ApiDependencies): void {
  for (const { url, body } of connectVersions) {
    api.route({
      method: 'POST',
      url: e2bPrefix + url,
      config: { access: anyUser('by_role') },
      schema: {
        hide: true,
        operationId: 'connectSandbox',
        params: sandboxPath,
        body,
        response: { 200: connectedSandbox, 201: connectedSandbox },
      },
      handler: async (request, reply) => {
        const sandbox = await readLivingSandbox(deps, request, request.params.sandbox_id);
        return connect(deps, request, reply, { sandbox, ...request.body });
      },
    });
  }
}

const resumeBody = optionalBody(
  z.object({ timeout: withDefault(e2bTimeout(), 15), memory, autoPause: optional(z.boolean()) }),
);

/** `POST /sandboxes/{sandboxID}/resume`: as connect, but 409 if the sandbox runs. */
export function resumeE2bSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: `${e2bPrefix}/sandboxes/:sandbox_id/resume`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      operationId: 'resumeSandbox',
      params: sandboxPath,
      body: resumeBody,
      response: { 200: connectedSandbox, 201: connectedSandbox },
    },
    handler: async (request, reply) => {
      const { autoPause, ...asked } = request.body;
      const sandbox = await readLivingSandbox(deps, request, request.params.sandbox_id);
      if (e2bState(sandbox.status) === 'running') {
        throw new AppError('sandbox_not_paused', `The sandbox is ${sandbox.status}, not paused`);
      }
      if (autoPause !== undefined && autoPause !== sandbox.autoPause) {
        throw new AppError('validation_failed', 'autoPause must be that of the create: a resume does not change it');
      }
      return connect(deps, request, reply, { sandbox, ...asked });
    },
  });
}

/** @param asked.memory false: a paused sandbox starts again on its disk, without its processes */
async function connect(
  deps: ApiDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
  asked: { sandbox: Sandbox; timeout: number; memory: boolean },
): Promise<FastifyReply> {
  const { timeout: timeoutSeconds } = asked;
  checkPlanLimits(requirePlan(request, deps.plans), { timeoutSeconds });
  const { sandboxId } = asked.sandbox;
  const read = () => readLivingSandbox(deps, request, sandboxId);
  let { sandbox } = asked;
  const isPaused = e2bState(sandbox.status) === 'paused';
  if (isPaused && !asked.memory) {
    await deps.sandboxCommands.restart(sandbox, { storage: null });
    sandbox = await read();
  }
  const isExtended = isPaused || isLonger(sandbox, timeoutSeconds);
  if (sandbox.status !== 'running' || isExtended) {
    await deps.sandboxCommands.connect(sandbox, { timeoutSeconds: isExtended ? timeoutSeconds : null });
    sandbox = await read();
  }
  return reply.code(isPaused ? 201 : 200).send(presentConnected(deps, sandbox));
}

/** Whether a timeout that counts from now ends later than the present one. */
function isLonger({ status, timeoutFrom, timeoutSeconds }: Sandbox, fromNowSeconds: number): boolean {
  const deadline = timeoutAt(status, timeoutFrom ?? null, timeoutSeconds);
  return deadline ? Date.now() + fromNowSeconds * 1000 > deadline.getTime() : fromNowSeconds > timeoutSeconds;
}

/** `POST /sandboxes/{sandboxID}/timeout`: sets the timeout, which counts from now. */
export function setE2bTimeout(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: `${e2bPrefix}/sandboxes/:sandbox_id/timeout`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      operationId: 'setSandboxTimeout',
      params: sandboxPath,
      body: z.object({ timeout: e2bTimeout() }),
      response: { 204: z.null() },
    },
    handler: async (request, reply) => {
      const sandbox = await readRunning(deps, request, request.params.sandbox_id);
      await setTimeoutFromNow(deps, request, sandbox, request.body.timeout);
      return reply.code(204).send(null);
    },
  });
}

/** A refresh keeps a sandbox alive for at least this long. */
const refreshSeconds = 15;

const refreshBody = optionalBody(z.object({ duration: withDefault(e2bTimeout(), refreshSeconds) }));

/** `POST /sandboxes/{sandboxID}/refreshes`: extends the timeout, and never shortens it. */
export function refreshE2bSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: `${e2bPrefix}/sandboxes/:sandbox_id/refreshes`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      operationId: 'setSandboxTimeout',
      params: sandboxPath,
      body: refreshBody,
      response: { 204: z.null() },
    },
    handler: async (request, reply) => {
      const sandbox = await readRunning(deps, request, request.params.sandbox_id);
      const seconds = Math.max(request.body.duration, refreshSeconds);
      if (isLonger(sandbox, seconds)) await setTimeoutFromNow(deps, request, sandbox, seconds);
      return reply.code(204).send(null);
    },
  });
}

/** @throws {AppError} `not_found`, also for a paused sandbox: only a connect changes its timeout */
async function readRunning(deps: ApiDependencies, request: FastifyRequest, sandboxId: SandboxId): Promise<Sandbox> {
  const sandbox = await readLivingSandbox(deps, request, sandboxId);
  if (e2bState(sandbox.status) === 'running') return sandbox;
  throw new AppError('not_found', `The sandbox is ${sandbox.status}; connect to it to run it with a timeout`);
}

async function setTimeoutFromNow(
  deps: ApiDependencies,
  request: FastifyRequest,
  sandbox: Sandbox,
  fromNowSeconds: number,
): Promise<void> {
  checkPlanLimits(requirePlan(request, deps.plans), { timeoutSeconds: fromNowSeconds });
  // The platform counts a timeout from the start of the running phase.
  const sinceMs = sandbox.status === 'running' && sandbox.timeoutFrom ? Date.now() - sandbox.timeoutFrom.getTime() : 0;
  const timeoutSeconds = Math.max(0, Math.ceil(sinceMs / 1000)) + fromNowSeconds;
  await deps.sandboxCommands.setTimeout(sandbox, { timeoutSeconds, mustRaise: false });
}
