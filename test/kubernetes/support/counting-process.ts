import type { SandboxPlace, SandboxSpec } from '../../../runtime/driver.ts';
import { shell } from '../../runtime/local-host.ts';

/** A script that counts in memory and writes the count to a file when it gets a signal. */
const count = 'n=0; trap "echo \\$n >/tmp/count" USR1; while :; do n=$((n+1)); sleep 0.1; done';

/**
 * A process in a sandbox that counts ten times a second. The count shows how long it ran, and that it is the same one.
 */
export class CountingProcess {
  readonly #pid: string;

  private constructor(pid: string) {
    this.#pid = pid;
  }

  static async start(place: SandboxPlace, spec: SandboxSpec): Promise<CountingProcess> {
    const { output } = await shell(place, spec, `sh -c '${count}' </dev/null >/dev/null 2>&1 & echo $!`);
    if (!/^\d+$/.test(output)) throw new Error(`no process was started: ${output}`);
    return new CountingProcess(output);
  }

  /** @returns null when the process is gone or does not answer */
  async count(place: SandboxPlace, spec: SandboxSpec): Promise<number | null> {
    const wait = 'for i in 1 2 3 4 5 6 7 8 9 10; do [ -s /tmp/count ] && break; sleep 0.5; done';
    const { output } = await shell(place, spec, `: >/tmp/count; kill -USR1 ${this.#pid} && ${wait}; cat /tmp/count`);
    return /^\d+$/.test(output) ? Number(output) : null;
  }
}
