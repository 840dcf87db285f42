import { proxyActivities, proxyLocalActivities, uuid4 } from '@temporalio/workflow';
import type { SandboxHostActivities } from '../activities/sandbox-host.ts';
import type { SandboxPortActivities } from '../activities/sandbox-ports.ts';
import type { Port } from '../domain/ports.ts';
import { hostTaskQueue } from '../domain/task-queues.ts';
import { oneAtATime } from './one-at-a-time.ts';
import { asRefusal, refused } from './sandbox-failure.ts';

const rows = oneAtATime(
  proxyLocalActivities<SandboxPortActivities>({
    startToCloseTimeout: '10s',
    retry: { initialInterval: '200ms', maximumInterval: '10s' },
  }),
);

function exposingOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'exposePorts'>>({
    taskQueue: hostTaskQueue(hostId),
    scheduleToStartTimeout: '10s',
    startToCloseTimeout: '10s',
    retry: { maximumAttempts: 2 },
  });
}

/** The ports of one sandbox. Changes run one after the other, so that row and host agree after each. */
export class SandboxPorts {
  readonly #sandboxId: string;
  #last: Promise<unknown> = Promise.resolve();

  constructor(sandboxId: string) {
    this.#sandboxId = sandboxId;
  }

  /** @throws {ApplicationFailure} with the code of the refusal; nothing is added then */
  add(hostId: string, port: Port): Promise<void> {
    const added = { ...port, addedBy: uuid4() };
    return this.#inTurn(async () => {
      await told(rows.recordPortAdded(this.#sandboxId, added));
      if (port.protocol !== 'UDP') return;
      try {
        await exposingOn(hostId).exposePorts(this.#sandboxId, null);
      } catch (error) {
        await rows.recordPortRemoved(this.#sandboxId, port.port);
        throw notExposed(error);
      }
    });
  }

  /** @throws {ApplicationFailure} with the code of the refusal; the port is still there then */
  remove(hostId: string, port: number): Promise<void> {
    return this.#inTurn(async () => {
      const { isUdp } = await told(rows.findRemovablePort(this.#sandboxId, port));
      if (isUdp) {
        // The host first: its port may be another sandbox's as soon as the row lets go of it.
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
    const mine = this.#last.then(change);
    this.#last = mine.catch(() => undefined);
    return mine;
  }
}

async function told<T>(work: Promise<T>): Promise<T> {
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
