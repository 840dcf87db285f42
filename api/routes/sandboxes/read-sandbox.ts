import type { FastifyRequest } from 'fastify';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { findSandboxView, type SandboxView } from '../../../db/sandboxes/sandbox-reads.ts';
import { notFound } from '../../../domain/errors.ts';
import { isId, type SandboxId } from '../../../domain/ids.ts';
import { scopeOf } from '../../access.ts';
import type { ApiDependencies } from '../../dependencies.ts';
import { presentSandbox } from './present-sandbox.ts';
import type { SandboxFields } from './sandbox-schema.ts';

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
