import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxStatus } from '../../domain/sandboxes/state.ts';
import { Sandbox } from './sandbox.entity.ts';

/** The number of the secret key from which the tokens of a sandbox are derived. Null: it never existed. */
export async function findSecretKeyNumber(em: EntityManager, sandboxId: SandboxId): Promise<number | null> {
  const row = await em.fork().findOne(Sandbox, { sandboxId }, { fields: ['secretKeyNumber'] });
  return row?.secretKeyNumber ?? null;
}

/** Reads only the status of a sandbox's row, deleted or not. Null: it never existed. */
export async function findSandboxStatus(
  em: EntityManager,
  sandboxId: SandboxId,
): Promise<{ status: SandboxStatus } | null> {
  return em.fork().findOne(Sandbox, { sandboxId }, { fields: ['status'] });
}
