import { setTimeout as delay } from 'node:timers/promises';
import type { SandboxInspection, SandboxPlace, SandboxSpec } from '../../../runtime/driver.ts';
import { shell } from '../../runtime/local-host.ts';
import type { ClusterState } from './cluster-inventory.ts';
import { CallFailed, type DriverProcess } from './driver-process.ts';

export const moveNames = ['create', 'pause', 'resume', 'restart', 'stop', 'remove'] as const;
export type MoveName = (typeof moveNames)[number];

/** What a sandbox has to be after a move that was done. */
const goals: Record<MoveName, ClusterState> = {
  create: 'running',
  pause: 'exited',
  resume: 'running',
  restart: 'running',
  stop: 'exited',
  remove: 'absent',
};
const tryAgainMs = 300;

/** How a move ended; starts with `WRONG` when that may not be. */
export type Ending = 'as asked' | 'done when asked again' | `failed: ${string}` | `WRONG: ${string}`;

/** One sandbox on its way from one state to another. */
export class MovingSandbox {
  readonly move: MoveName;
  readonly spec: SandboxSpec;
  readonly #driver: DriverProcess;

  constructor(driver: DriverProcess, move: MoveName, spec: SandboxSpec) {
    this.#driver = driver;
    this.move = move;
    this.spec = spec;
  }

  /** Brings it to where the move starts, with a file on its disk. */
  async prepare(): Promise<void> {
    if (this.move === 'create') return;
    const { spec } = this;
    const place = await this.#driver.call<SandboxPlace>('create', spec);
    await shell(place, spec, `echo ${spec.sandboxId} >/root/kept`);
    if (this.move === 'resume') await this.#driver.call('pause', spec.sandboxId);
  }

  /**
   * Asks for it until it is done or finally refused, as a workflow does.
   * @returns how it ended, within the time
   */
  async fire(timeoutMs: number): Promise<Ending> {
    const deadline = Date.now() + timeoutMs;
    for (let tries = 1; ; tries += 1) {
      try {
        await this.#ask();
        return tries === 1 ? 'as asked' : 'done when asked again';
      } catch (error) {
        if (!(error instanceof CallFailed)) throw error;
        if (!error.retryable) return `failed: ${error.code}`;
        if (Date.now() > deadline) return `WRONG: not done in time: ${error.message}`;
        await delay(tryAgainMs);
      }
    }
  }

  /** What is wrong with it after its move. Null: nothing. */
  async fault(ending: Ending, state: ClusterState): Promise<string | null> {
    if (ending.startsWith('WRONG')) return ending;
    if (ending.startsWith('failed')) return null;
    if (state !== goals[this.move]) return `it is ${state} after ${this.move}`;
    if (state !== 'running') return null;
    const { place, run } = await this.#driver.call<SandboxInspection>('inspect', this.spec.sandboxId);
    if (run !== this.#nextRun) return `its run is ${run}, not ${this.#nextRun}`;
    if (!place) return 'it runs without an address';
    const falseEnds = this.#driver.ends.filter(
      (end) => end.sandboxId === this.spec.sandboxId && end.run === this.#nextRun,
    );
    if (falseEnds.length > 0) return `its end was reported: ${JSON.stringify(falseEnds)}`;
    const kept = this.move === 'create' ? 'hello' : this.spec.sandboxId;
    const { output } = await shell(place, this.spec, this.move === 'create' ? 'echo $GREETING' : 'cat /root/kept');
    return output === kept ? null : `it printed ${output}, not ${kept}`;
  }

  get #nextRun(): number {
    return this.move === 'create' ? this.spec.run! : this.spec.run! + 1;
  }

  #ask(): Promise<unknown> {
    const { spec } = this;
    switch (this.move) {
      case 'create':
        return this.#driver.call('create', spec);
      case 'resume':
      case 'restart':
        return this.#driver.call(this.move, { ...spec, run: this.#nextRun });
      default:
        return this.#driver.call(this.move, spec.sandboxId);
    }
  }
}
