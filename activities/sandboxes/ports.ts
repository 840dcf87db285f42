import type { Orm } from '../../db/orm.ts';
import { addPort, removablePort, removePort } from '../../db/sandboxes/sandbox-ports.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { Port } from '../../domain/sandboxes/ports.ts';
import { refusing } from './life.ts';

/** The writes of a sandbox's workflow to the ports of its row. They are local activities, as in `life.ts`. */
export function createSandboxPortActivities({ orm }: { orm: Orm }) {
  return {
    /** Fails with `sandbox_not_running`, `port_taken`, `port_name_taken`, `port_limit_reached`, `no_capacity`. */
    async recordPortAdded(sandboxId: SandboxId, port: Port): Promise<void> {
      await refusing(addPort(orm.em, sandboxId, port));
    },
    /** Fails with `sandbox_not_running`, `not_found`, `port_of_template`. */
    async findRemovablePort(sandboxId: SandboxId, port: number): Promise<{ isUdp: boolean }> {
      return { isUdp: (await refusing(removablePort(orm.em, sandboxId, port))).protocol === 'UDP' };
    },
    async recordPortRemoved(sandboxId: SandboxId, port: number): Promise<void> {
      await refusing(removePort(orm.em, sandboxId, port));
    },
  };
}

export type SandboxPortActivities = ReturnType<typeof createSandboxPortActivities>;
