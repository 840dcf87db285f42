import { readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { readIfThere } from '../support/read-if-there.ts';

/** The state of a process at some moment. */
export interface SeenProcess {
  pid: number;
  /** The user on the host. */
  uid: number;
  /** Its arguments, each followed by NUL. */
  commandLine: string;
  environment: string;
}

const everyMs = 4;
/** A process that was checked so often is no longer a fork that is about to start another program. */
const checksOfEach = 25;

/** Continuously watches every process of this machine, including those that live only for milliseconds. */
export class ProcessWatch {
  readonly #seen = new Map<string, SeenProcess>();
  #checks = new Map<number, number>();
  #isOn = true;
  readonly #ended = this.#watch();

  /** @returns each process that was seen, once for each combination of arguments and environment */
  async stop(): Promise<SeenProcess[]> {
    this.#isOn = false;
    await this.#ended;
    this.#checks.clear();
    this.#check();
    return [...this.#seen.values()];
  }

  async #watch(): Promise<void> {
    while (this.#isOn) {
      this.#check();
      await delay(everyMs);
    }
  }

  #check(): void {
    const checks = new Map<number, number>();
    for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
      const before = this.#checks.get(pid) ?? 0;
      checks.set(pid, before + 1);
      if (before < checksOfEach) this.#note(pid);
    }
    this.#checks = checks;
  }

  #note(pid: number): void {
    const commandLine = readIfThere(`/proc/${pid}/cmdline`);
    if (!commandLine) return;
    const uid = Number(/^Uid:\s+(\d+)/m.exec(readIfThere(`/proc/${pid}/status`))?.[1]);
    // The machine's first process, which not even root may always read, is never started by a platform.
    const environment = pid === 1 ? '' : readIfThere(`/proc/${pid}/environ`);
    this.#seen.set([pid, commandLine, environment].join('\n'), { pid, uid, commandLine, environment });
  }
}
