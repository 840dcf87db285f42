import type { UdpMapping } from '../../domain/sandboxes/ports.ts';
import type { SandboxPlace, SandboxSpec } from '../driver.ts';
import type { SandboxNetwork } from './network.ts';
import type { SandboxRecord } from './sandbox-folder.ts';
import type { SandboxRecords } from './sandbox-records.ts';

/** The UDP ports of sandboxes that ports of the host lead to. */
export class ExposedPorts {
  readonly #records: SandboxRecords;
  readonly #network: SandboxNetwork;

  constructor(parts: { records: SandboxRecords; network: SandboxNetwork }) {
    this.#records = parts.records;
    this.#network = parts.network;
  }

  /** Applies the fields of the sandbox's row that are needed from its start. */
  async exposeAs({ sandboxId, udpPorts }: SandboxSpec, { address }: SandboxPlace): Promise<void> {
    if (udpPorts.length === 0 && !this.#network.isExposed(address)) return;
    const record = this.#records.get(sandboxId);
    if (record) await this.expose(record, udpPorts);
  }

  /** Writes the record first, so that after a crash another host worker restores the same ports. */
  async expose(record: SandboxRecord, ports: readonly UdpMapping[]): Promise<void> {
    if (JSON.stringify(ports) !== JSON.stringify(record.udpPorts ?? [])) {
      await this.#records.write({ ...record, udpPorts: [...ports] });
    }
    await this.#network.expose(record.address, ports);
  }
}
