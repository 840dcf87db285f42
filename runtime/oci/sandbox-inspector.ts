import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxInspection } from '../driver.ts';
import type { Cgroups } from './cgroups.ts';
import type { ContainerRunner } from './container-runner.ts';
import { hasDisk, readExit, type SandboxRecords, toSandboxPlace } from './sandbox-records.ts';

/** Tells the state of sandboxes from their records and from the kernel. */
export class SandboxInspector {
  readonly #records: SandboxRecords;
  readonly #runner: ContainerRunner;
  readonly #cgroups: Cgroups;

  constructor(parts: { records: SandboxRecords; runner: ContainerRunner; cgroups: Cgroups }) {
    this.#records = parts.records;
    this.#runner = parts.runner;
    this.#cgroups = parts.cgroups;
  }

  async inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    const folder = this.#records.sandboxFolder(sandboxId);
    const record = this.#records.get(sandboxId);
    const run = record?.run ?? null;
    if (!record || !this.#runner.isRunning(folder)) {
      const exit = record?.phase === 'stopped' ? null : await readExit(folder, record ?? { sandboxId });
      return { sandboxId, state: hasDisk(folder) ? 'exited' : 'absent', run, place: null, exit };
    }
    const state = this.#cgroups.freezer.isFrozen(record.instance) ? 'paused' : 'running';
    const place = record.phase === 'ready' ? toSandboxPlace(record, 'existing') : null;
    return { sandboxId, state, run, place, exit: null };
  }

  async list(): Promise<SandboxInspection[]> {
    return Promise.all((await this.#records.sandboxIds()).map((sandboxId) => this.inspect(sandboxId)));
  }

  async sandboxAt(address: string): Promise<SandboxId | null> {
    const found = this.#records
      .all()
      .find(
        (record) =>
          record.address === address &&
          record.phase !== 'stopped' &&
          this.#runner.isRunning(this.#records.sandboxFolder(record.sandboxId)),
      );
    return found?.sandboxId ?? null;
  }
}
