import { readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { readIfThere } from '../support/read-if-there.ts';

/** A process as it was at some moment. */
export interface SeenProcess {
  pid: number;
  /** On the host. */
  uid: number;
  /** Its arguments, NUL after each. */
  commandLine: string;
  environment: string;
}

const everyMs = 4;
/** One that was looked at so often is no fork any more that is about to become something else. */
const looksAtEach = 25;

/** Looks at every process of this machine all the time, also at those that live for a few milliseconds only. */
export class ProcessWatch {
  readonly #seen = new Map<string, SeenProcess>();
  #looks = new Map<number, number>();
  #isOn = true;
  readonly #ended = this.#watch();

  /** @returns each that was seen, once for each arguments and environment it had */
  async stop(): Promise<SeenProcess[]> {
    this.#isOn = false;
    await this.#ended;
    this.#looks.clear();
    this.#look();
    return [...this.#seen.values()];
  }

  async #watch(): Promise<void> {
    while (this.#isOn) {
      this.#look();
      await delay(everyMs);
    }
  }

  #look(): void {
    const looks = new Map<number, number>();
    for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
      const before = this.#looks.get(pid) ?? 0;
      looks.set(pid, before + 1);
      if (before < looksAtEach) this.#note(pid);
    }
    this.#looks = looks;
  }

  #note(pid: number): void {
    const commandLine = readIfThere(`/proc/${pid}/cmdline`);
    if (!commandLine) return;
    const uid = Number(/^Uid:\s+(\d+)/m.exec(readIfThere(`/proc/${pid}/status`))?.[1]);
    // The machine's first process, which not even root may look into everywhere, is none that a platform starts.
    const environment = pid === 1 ? '' : readIfThere(`/proc/${pid}/environ`);
    this.#seen.set([pid, commandLine, environment].join('\n'), { pid, uid, commandLine, environment });
  }
}
