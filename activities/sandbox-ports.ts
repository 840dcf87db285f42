import type { Orm } from '../db/orm.ts';
import { addPort, removablePort, removePort } from '../db/repositories/sandbox-ports.ts';
import type { Port } from '../domain/ports.ts';
import { told } from './sandbox-life.ts';

/** How a sandbox's workflow writes the ports of its row. Local activities, as those of `sandbox-life.ts`. */
export function createSandboxPortActivities({ orm }: { orm: Orm }) {
  return {
    /** Fails with `sandbox_not_running`, `port_taken`, `port_name_taken`, `port_limit_reached`, `no_capacity`. */
    async recordPortAdded(sandboxId: string, port: Port): Promise<void> {
      await told(addPort(orm.em, sandboxId, port));
    },
    /** Fails with `sandbox_not_running`, `not_found`, `port_of_template`. */
    async findRemovablePort(sandboxId: string, port: number): Promise<{ isUdp: boolean }> {
      return { isUdp: (await told(removablePort(orm.em, sandboxId, port))).protocol === 'UDP' };
    },
    async recordPortRemoved(sandboxId: string, port: number): Promise<void> {
      await told(removePort(orm.em, sandboxId, port));
    },
  };
}

export type SandboxPortActivities = ReturnType<typeof createSandboxPortActivities>;
