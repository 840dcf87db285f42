import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxId } from '../../domain/ids.ts';
import { type Port, unionOfPorts } from '../../domain/sandboxes/ports.ts';
import type { SandboxStatus } from '../../domain/sandboxes/state.ts';
import { isUserDisabled } from '../accounts/users.ts';
import { query } from '../core/query.ts';
import { Sandbox } from './sandbox.entity.ts';

/** The facts that the gateway needs to forward a request to a sandbox. */
export interface SandboxRouteRow {
  sandboxId: SandboxId;
  status: SandboxStatus;
  hostId: string | null;
  address: string | null;
  agentPort: number | null;
  secure: boolean;
  /** Undeclared ports are public, except those of the agent. */
  publicPorts: boolean;
  /** The number of the secret key from which its tokens are derived. */
  secretKeyNumber: number;
  /** The owner of the sandbox is disabled, so only its public ports are served. */
  isLocked: boolean;
  ports: Port[];
}

const routeFields = [
  ...(['sandboxId', 'ownerUserId', 'status', 'deletedAt', 'hostId', 'agentAddress', 'agentPort', 'secure'] as const),
  ...(['publicPorts', 'secretKeyNumber', 'templatePorts', 'customPorts'] as const),
] as const;

/** Null: it does not exist, or was deleted. */
export async function findSandboxRoute(em: EntityManager, sandboxId: SandboxId): Promise<SandboxRouteRow | null> {
  const row = await findEverKnownRoute(em, sandboxId);
  return row?.isDeleted ? null : row;
}

/** As `findSandboxRoute`, but includes deleted sandboxes, which count as `terminated`. Null: it never existed. */
export async function findEverKnownRoute(
  em: EntityManager,
  sandboxId: SandboxId,
): Promise<(SandboxRouteRow & { isDeleted: boolean }) | null> {
  const row = await em.fork().findOne(Sandbox, { sandboxId }, { fields: routeFields });
  if (!row) return null;
  const isLocked = await isUserDisabled(em, row.ownerUserId);
  const isDeleted = row.deletedAt != null;
  return {
    isDeleted,
    sandboxId: row.sandboxId,
    status: isDeleted ? 'terminated' : row.status,
    hostId: row.hostId ?? null,
    address: row.agentAddress ?? null,
    agentPort: row.agentPort ?? null,
    secure: row.secure,
    publicPorts: row.publicPorts,
    secretKeyNumber: row.secretKeyNumber,
    isLocked,
    ports: unionOfPorts(row.templatePorts, row.customPorts),
  };
}

/** Records when these sandboxes were used, with a precision of one minute. */
export async function recordAccess(em: EntityManager, sandboxIds: readonly SandboxId[], at: Date): Promise<void> {
  if (sandboxIds.length === 0) return;
  const minute = new Date(Math.floor(at.getTime() / 60_000) * 60_000);
  await query(
    em.fork(),
    'update sandboxes set last_accessed_at = greatest(last_accessed_at, ?::timestamptz) where sandbox_id = any(?::text[])',
    [minute.toISOString(), `{${sandboxIds.join(',')}}`],
  );
}
