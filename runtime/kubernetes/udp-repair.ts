import type { SandboxId } from '../../domain/ids.ts';
import type { CancellableWork } from '../cancellable-work.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { LinkedSandbox } from '../host-driver.ts';
import type { KeyedLock } from '../process/keyed-lock.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import type { UdpPorts } from './udp-ports.ts';

/** Restores Services of UDP ports that something outside the platform has removed. */
export class UdpRepair {
  readonly #udp: UdpPorts;
  readonly #watch: ClusterWatch;
  readonly #work: CancellableWork;
  readonly #lock: KeyedLock;
  readonly #logger: DriverLogger;

  constructor(parts: {
    udp: UdpPorts;
    watch: ClusterWatch;
    work: CancellableWork;
    lock: KeyedLock;
    logger: DriverLogger;
  }) {
    this.#udp = parts.udp;
    this.#watch = parts.watch;
    this.#work = parts.work;
    this.#lock = parts.lock;
    this.#logger = parts.logger;
  }

  /** @returns the sandboxes with restored ports */
  async repair(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]> {
    const repaired: SandboxId[] = [];
    for (const { sandboxId } of sandboxes) {
      if (this.#udp.lost(sandboxId) && (await this.#repairOne(sandboxId))) repaired.push(sandboxId);
    }
    return repaired;
  }

  async #repairOne(sandboxId: SandboxId): Promise<boolean> {
    if (this.#work.isBusyWith(sandboxId)) return false;
    return this.#lock.run(sandboxId, async () => {
      const [ports, disk] = [this.#udp.lost(sandboxId), this.#watch.findDisk(sandboxId)];
      if (!ports || !disk) return false;
      try {
        await this.#udp.lead(disk, ports);
        return true;
      } catch (error) {
        this.#logger.warn({ err: error, sandboxId }, 'the UDP ports of a sandbox could not be restored');
        return false;
      }
    });
  }
}
