import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxUsage } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { Cgroups } from './cgroups.ts';
import type { SandboxNetwork } from './network.ts';
import { OwnFigures } from './own-figures.ts';
import { readPids, type SandboxRecord } from './sandbox-folder.ts';
import type { SandboxRecords } from './sandbox-records.ts';
import { UsageMeter } from './usage-meter.ts';

/** Measures running sandboxes: their usage for the platform, and the figures that they see of themselves. */
export class SandboxMeters {
  readonly #records: SandboxRecords;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #usage: UsageMeter;
  readonly #figures: OwnFigures;

  constructor(parts: { records: SandboxRecords; cgroups: Cgroups; network: SandboxNetwork; logger: DriverLogger }) {
    this.#records = parts.records;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#usage = new UsageMeter(parts.cgroups);
    this.#figures = new OwnFigures(parts.cgroups, parts.logger);
  }

  get sandboxIds(): SandboxId[] {
    return this.#usage.sandboxIds;
  }

  start(): void {
    this.#figures.start();
  }

  begin(record: SandboxRecord): void {
    const { shim } = readPids(this.#records.folderOf(record.sandboxId))!;
    this.#figures.begin(record.sandboxId, record.instance, shim);
    this.#usage.begin(record.sandboxId, {
      files: this.#cgroups.usageFiles(record.instance),
      diskFolder: `/proc/${shim.pid}/root/mnt/disk`,
      interface: this.#network.interfaceOf(record.address),
    });
  }

  end(sandboxId: SandboxId): void {
    this.#usage.end(sandboxId);
    this.#figures.end(sandboxId);
  }

  read(): Promise<SandboxUsage[]> {
    return this.#usage.read();
  }

  close(): Promise<void> {
    return this.#figures.stop();
  }
}
