import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { checkNewPort, findRemovablePort, listUdpPorts, type Port } from '../../domain/sandboxes/ports.ts';
import { takeUdpPorts } from './admission.ts';
import { Sandbox } from './sandbox.entity.ts';

/**
 * Adds an own port to a running sandbox. A UDP port also gets a port of its host. A repeated change (`addedBy`) has no
 * effect.
 * @throws {AppError} `sandbox_not_running`, `port_taken`, `port_name_taken`, `port_limit_reached`, `no_capacity`
 */
export async function addPort(em: EntityManager, sandboxId: SandboxId, port: Port): Promise<void> {
  await em.fork().transactional(async (tx) => {
    const row = await lockSandbox(tx, sandboxId);
    if (row.customPorts.some((item) => item.addedBy !== undefined && item.addedBy === port.addedBy)) return;
    if (row.status !== 'running') throw notRunning(row);
    checkNewPort(row, port);
    row.customPorts = [...row.customPorts, port];
    if (port.protocol !== 'UDP') return;
    row.udpHostPorts = { ...row.udpHostPorts, ...(await takeUdpPorts(tx, row.hostId, [port.port])) };
  });
}

/**
 * The port to remove, read before anything is changed.
 * @throws {AppError} `sandbox_not_running`, `not_found`, `port_of_template`
 */
export async function removablePort(em: EntityManager, sandboxId: SandboxId, port: number): Promise<Port> {
  const row = await em.fork().findOneOrFail(Sandbox, { sandboxId });
  if (row.status !== 'running') throw notRunning(row);
  return findRemovablePort(row, port);
}

/** Removes an own port of the sandbox, and releases the host's port. Does nothing if it is already removed. */
export async function removePort(em: EntityManager, sandboxId: SandboxId, port: number): Promise<void> {
  await em.fork().transactional(async (tx) => {
    const row = await lockSandbox(tx, sandboxId);
    if (!row.customPorts.some((item) => item.port === port)) return;
    row.customPorts = row.customPorts.filter((item) => item.port !== port);
    const stillUdp = new Set(listUdpPorts(row).map(String));
    row.udpHostPorts = Object.fromEntries(Object.entries(row.udpHostPorts).filter(([each]) => stillUdp.has(each)));
  });
}

function lockSandbox(tx: EntityManager, sandboxId: SandboxId): Promise<Sandbox> {
  return tx.findOneOrFail(Sandbox, { sandboxId }, { lockMode: LockMode.PESSIMISTIC_WRITE });
}

function notRunning(row: Sandbox): AppError {
  return new AppError('sandbox_not_running', `The sandbox is ${row.status}, not running`);
}
