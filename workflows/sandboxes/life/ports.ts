import { proxyActivities, proxyLocalActivities, uuid4 } from '@temporalio/workflow';
import type { SandboxHostActivities } from '../../../activities/sandboxes/on-host.ts';
import type { SandboxPortActivities } from '../../../activities/sandboxes/ports.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { Port } from '../../../domain/sandboxes/ports.ts';
import { database, onHost } from '../../activity-profiles.ts';
import { asRefusal, refused } from './failure.ts';
import { oneAtATime } from './one-at-a-time.ts';

const rows = oneAtATime(proxyLocalActivities<SandboxPortActivities>(database));

function exposingOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'exposePorts'>>(onHost.exposingPorts(hostId));
}

/** Changes the ports of one sandbox, one change after the other, so that row and host agree after each. */
export class SandboxPorts {
  readonly #sandboxId: SandboxId;
  #last: Promise<unknown> = Promise.resolve();

  constructor(sandboxId: SandboxId) {
    this.#sandboxId = sandboxId;
  }

  /** @throws {ApplicationFailure} the refusal with its code. In that case no port was added. */
  add(hostId: string, port: Port): Promise<void> {
    const added = { ...port, addedBy: uuid4() };
    return this.#inTurn(async () => {
      await refusing(rows.recordPortAdded(this.#sandboxId, added));
      if (port.protocol !== 'UDP') return;
      try {
        await exposingOn(hostId).exposePorts(this.#sandboxId, null);
      } catch (error) {
        await rows.recordPortRemoved(this.#sandboxId, port.port);
        throw notExposed(error);
      }
    });
  }

  /** @throws {ApplicationFailure} the refusal with its code. In that case the port is still there. */
  remove(hostId: string, port: number): Promise<void> {
    return this.#inTurn(async () => {
      const { isUdp } = await refusing(rows.findRemovablePort(this.#sandboxId, port));
      if (isUdp) {
        // The host acts first: once the row releases the host's port, another sandbox may get it.
        await exposingOn(hostId)
          .exposePorts(this.#sandboxId, port)
          .catch((error) => {
            throw notExposed(error);
          });
      }
      await rows.recordPortRemoved(this.#sandboxId, port);
    });
  }

  #inTurn(change: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(change);
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

/** Turns the failure of a local activity into the refusal of the update. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asRefusal(error, 'temporarily_unavailable');
  }
}

function notExposed(error: unknown): Error {
  const { message } = asRefusal(error, 'temporarily_unavailable');
  return refused('temporarily_unavailable', `The host could not change its UDP ports: ${message}`);
}
