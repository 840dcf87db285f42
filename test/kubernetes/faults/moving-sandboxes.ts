import { setTimeout as delay } from 'node:timers/promises';
import type { PauseResult, SandboxInspection, SandboxPlace, SandboxSpec } from '../../../runtime/driver.ts';
import { shell } from '../../runtime/local-host.ts';
import { CountingProcess } from '../support/counting-process.ts';
import type { ClusterState } from './cluster-inventory.ts';
import { CallFailed, type DriverProcess } from './driver-process.ts';
import type { FaultyCluster } from './faulty-cluster.ts';

export const moveNames = ['create', 'pause', 'resume', 'resume on the disk', 'restart', 'stop', 'remove'] as const;
export type MoveName = (typeof moveNames)[number];

const tryAgainMs = 300;

/** How a move ended. `WRONG` marks an ending that is a bug. */
export type Ending = 'done at once' | 'done after a retry' | `failed: ${string}` | `WRONG: ${string}`;

/** A sandbox that makes one move from a state to another, on a node with a node helper. */
export class MovingSandbox {
  readonly move: MoveName;
  readonly spec: SandboxSpec;
  readonly #faulty: FaultyCluster;
  /** A process that shows whether a pause keeps the memory, and its count before the pause. */
  #counting: { process: CountingProcess; count: number } | null = null;
  #kept: PauseResult['kept'] | null = null;

  constructor(faulty: FaultyCluster, move: MoveName, spec: SandboxSpec) {
    this.#faulty = faulty;
    this.move = move;
    this.spec = spec;
  }

  /** What the pause has kept. Null: the move was no pause, or the pause failed. */
  get kept(): PauseResult['kept'] | null {
    return this.#kept;
  }

  /** Brings the sandbox to the state before the move, with a file on its disk. */
  async prepare(): Promise<void> {
    if (this.move === 'create') return;
    const { spec } = this;
    const place = await this.#driver.call<SandboxPlace>('create', spec);
    await shell(place, spec, `echo ${spec.sandboxId} >/root/kept`);
    if (this.move === 'resume on the disk') await this.#driver.call('stop', spec.sandboxId);
    if (this.move !== 'pause' && this.move !== 'resume') return;
    const process = await CountingProcess.start(place, spec);
    this.#counting = { process, count: (await process.count(place, spec)) ?? Number.NaN };
    await this.#faulty.whenHelped(spec.sandboxId);
    if (this.move === 'pause') return;
    const { kept } = await this.#driver.call<PauseResult>('pause', spec.sandboxId);
    if (kept !== 'memory') throw new Error(`the pause of ${spec.sandboxId} kept only the ${kept}`);
  }

  /**
   * Requests the move until it is done or finally refused, as a workflow does.
   * @returns how the move ended within the time limit
   */
  async fire(timeoutMs: number): Promise<Ending> {
    const deadline = Date.now() + timeoutMs;
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await this.#ask();
        if (this.move === 'pause') this.#kept = (answer as PauseResult).kept;
        return tries === 1 ? 'done at once' : 'done after a retry';
      } catch (error) {
        if (!(error instanceof CallFailed)) throw error;
        if (!error.retryable) return `failed: ${error.code}`;
        if (Date.now() > deadline) return `WRONG: not done in time: ${error.message}`;
        await delay(tryAgainMs);
      }
    }
  }

  /** A description of what is wrong with the sandbox after its move. Null: nothing is wrong. */
  async fault(ending: Ending, state: ClusterState): Promise<string | null> {
    if (ending.startsWith('WRONG')) return ending;
    if (ending.startsWith('failed')) return null;
    if (state !== this.#goal) return `it is ${state} after ${this.move}`;
    if (this.move === 'pause') return this.#faultOfPause();
    if (state !== 'running') return null;
    const { place, run } = await this.#driver.call<SandboxInspection>('inspect', this.spec.sandboxId);
    if (run !== this.#nextRun) return `its run is ${run}, not ${this.#nextRun}`;
    if (!place) return 'it runs without an address';
    const falseEnds = this.#driver.ends.filter(
      (end) => end.sandboxId === this.spec.sandboxId && end.run === this.#nextRun,
    );
    if (falseEnds.length > 0) return `its end was reported: ${JSON.stringify(falseEnds)}`;
    if (this.move === 'resume') return this.#faultOfMemory(place);
    return this.#faultOfOutput(place);
  }

  /** Resumes the sandbox and checks that everything that the pause reported as kept is still there. */
  async #faultOfPause(): Promise<string | null> {
    const place = await this.#driver.call<SandboxPlace>('resume', { ...this.spec, run: this.#nextRun });
    const from = this.#kept === 'memory' ? 'thaw' : 'cold';
    if (place.from !== from) return `a pause that kept the ${this.#kept} was resumed from ${place.from}`;
    return this.#kept === 'memory' ? this.#faultOfMemory(place) : this.#faultOfOutput(place);
  }

  /** Checks that the process from before the pause continues with its count. */
  async #faultOfMemory(place: SandboxPlace): Promise<string | null> {
    const { process, count } = this.#counting!;
    const first = await process.count(place, this.spec);
    await delay(tryAgainMs);
    const second = await process.count(place, this.spec);
    const goesOn = first !== null && second !== null && first >= count && second > first;
    return goesOn ? null : `its process counted ${count} before the pause, then ${first} and ${second}`;
  }

  async #faultOfOutput(place: SandboxPlace): Promise<string | null> {
    const kept = this.move === 'create' ? 'hello' : this.spec.sandboxId;
    const { output } = await shell(place, this.spec, this.move === 'create' ? 'echo $GREETING' : 'cat /root/kept');
    return output === kept ? null : `it printed ${output}, not ${kept}`;
  }

  /** The state that the sandbox must have after a successful move. */
  get #goal(): ClusterState {
    if (this.move === 'pause') return this.#kept === 'memory' ? 'paused' : 'exited';
    if (this.move === 'stop') return 'exited';
    return this.move === 'remove' ? 'absent' : 'running';
  }

  get #driver(): DriverProcess {
    return this.#faulty.driver;
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
      case 'resume on the disk':
        return this.#driver.call('resume', { ...spec, run: this.#nextRun });
      case 'restart':
        return this.#driver.call('restart', { ...spec, run: this.#nextRun });
      default:
        return this.#driver.call(this.move, spec.sandboxId);
    }
  }
}
