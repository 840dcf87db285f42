import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { checkNewPort, findRemovablePort, type Port, udpPortsOf } from '../../domain/ports.ts';
import { Sandbox } from '../entities/sandbox.ts';
import { takeUdpPorts } from './udp-ports.ts';

/**
 * Adds a port of its own to a running sandbox; one of UDP gets a port of its host. A change that is repeated
 * (`addedBy`) finds that it is done.
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
 * The port that may be removed, read before anything is done about it.
 * @throws {AppError} `sandbox_not_running`, `not_found`, `port_of_template`
 */
export async function removablePort(em: EntityManager, sandboxId: SandboxId, port: number): Promise<Port> {
  const row = await em.fork().findOneOrFail(Sandbox, { sandboxId });
  if (row.status !== 'running') throw notRunning(row);
  return findRemovablePort(row, port);
}

/** Removes a port of the sandbox's own, and gives the host's back. Nothing happens when it is gone already. */
export async function removePort(em: EntityManager, sandboxId: SandboxId, port: number): Promise<void> {
  await em.fork().transactional(async (tx) => {
    const row = await lockSandbox(tx, sandboxId);
    if (!row.customPorts.some((item) => item.port === port)) return;
    row.customPorts = row.customPorts.filter((item) => item.port !== port);
    const stillUdp = new Set(udpPortsOf(row).map(String));
    row.udpHostPorts = Object.fromEntries(Object.entries(row.udpHostPorts).filter(([each]) => stillUdp.has(each)));
  });
}

function lockSandbox(tx: EntityManager, sandboxId: SandboxId): Promise<Sandbox> {
  return tx.findOneOrFail(Sandbox, { sandboxId }, { lockMode: LockMode.PESSIMISTIC_WRITE });
}

function notRunning(row: Sandbox): AppError {
  return new AppError('sandbox_not_running', `The sandbox is ${row.status}, not running`);
}
