import type { SandboxId } from '../../domain/ids.ts';
import type { UdpMapping } from '../../domain/sandboxes/ports.ts';
import {
  type CreateOptions,
  DriverError,
  type ImageBuilds,
  type PackedLayer,
  type PauseResult,
  type SandboxDriver,
  type SandboxExit,
  type SandboxInspection,
  type SandboxPlace,
  type SandboxSpec,
  type SandboxUsage,
  type WantedMounts,
} from '../../runtime/driver.ts';

type FailingCall = 'copy' | 'create' | 'pause' | 'resume' | 'restart' | 'startable' | 'expose';
type HangingCall = 'create' | 'pause' | 'resume' | 'restart';

/**
 * A driver that keeps the states of its sandboxes but runs nothing: for tests of the workflow's decisions, in which
 * hours pass in a moment. Other tests use real containers.
 */
export class MemoryDriver implements SandboxDriver {
  readonly states = new Map<SandboxId, 'running' | 'paused' | 'exited'>();
  /** The number of the start or resume that started the processes of each sandbox. */
  readonly runs = new Map<SandboxId, number | null>();
  readonly calls: string[] = [];
  readonly exposed = new Map<SandboxId, readonly UdpMapping[]>();
  /** The last wanted mounts of each sandbox. */
  readonly storage = new Map<SandboxId, WantedMounts | undefined>();
  /** Makes the next call of that kind fail. */
  readonly failNext = new Map<FailingCall, DriverError>();
  /** Makes every call of that kind fail. */
  readonly failAlways = new Map<FailingCall, DriverError>();
  /**
   * Calls of that kind, for one sandbox or for all, that wait until they are cancelled, like calls to a hanging agent.
   */
  readonly hangs = new Set<`${HangingCall} ${string}`>();
  readonly hanging = new Map<SandboxId, AbortController>();
  /** While it is set, `create` waits for it or for the abortion. */
  hold: Promise<void> | null = null;
  /** While set for a kind of call, such calls wait for it. */
  readonly holds = new Map<'resume' | 'restart', Promise<void>>();
  pauseKeeps: PauseResult['kept'] = 'memory';
  /** The layers that builds return: `changes`, and the `tree` of an image. */
  readonly layers = new Map<'changes' | 'tree', PackedLayer>();
  readonly builds: ImageBuilds = {
    copyDisk: async (buildId, sandboxId) => {
      this.calls.push(`copy ${sandboxId} for ${buildId}`);
      await this.#copies;
      this.#failIfAsked('copy');
      return { frozenMs: 1, bytes: 1 };
    },
    packChanges: async () => this.#requireLayer('changes'),
    packImage: async () => ({ layer: this.#requireLayer('tree'), config: { Env: [] } }),
    imageDigest: async () => `sha256:${'0'.repeat(64)}`,
    discard: async (buildId) => {
      this.calls.push(`discard ${buildId}`);
    },
  };
  #copies: Promise<void> = Promise.resolve();
  #listener: ((exit: SandboxExit) => unknown) | null = null;

  /** From now on copies of disks wait. @returns a function that lets them continue */
  holdCopies(): () => void {
    let release = () => {};
    this.#copies = new Promise((resolve) => {
      release = resolve;
    });
    return release;
  }

  async create(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    this.calls.push(`create ${spec.sandboxId}`);
    options.onPhase?.('deploying');
    if (this.hold) await Promise.race([this.hold, aborted(options.signal)]);
    await this.#hangIfAsked('create', spec.sandboxId, options.signal);
    this.#failIfAsked('create');
    options.onPhase?.('initializing');
    options.onPhase?.('waiting_ready');
    this.states.set(spec.sandboxId, 'running');
    this.exposed.set(spec.sandboxId, spec.udpPorts);
    return this.#mounted(spec, 'cold');
  }

  async pause(sandboxId: SandboxId, signal?: AbortSignal): Promise<PauseResult> {
    this.calls.push(`pause ${sandboxId}`);
    await this.#hangIfAsked('pause', sandboxId, signal);
    this.#failIfAsked('pause');
    if (this.states.get(sandboxId) === 'exited' && this.pauseKeeps === 'memory') {
      throw new DriverError('sandbox_absent', 'The sandbox does not run on this host');
    }
    this.states.set(sandboxId, this.pauseKeeps === 'memory' ? 'paused' : 'exited');
    return { kept: this.pauseKeeps };
  }

  async resume(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    this.calls.push(`resume ${spec.sandboxId}`);
    await this.holds.get('resume');
    await this.#hangIfAsked('resume', spec.sandboxId, options.signal);
    this.#failIfAsked('resume');
    this.states.set(spec.sandboxId, 'running');
    this.exposed.set(spec.sandboxId, spec.udpPorts);
    return this.#mounted(spec, 'thaw');
  }

  async requireStartable(spec: SandboxSpec): Promise<void> {
    this.calls.push(`require startable ${spec.sandboxId}`);
    this.#failIfAsked('startable');
  }

  async restart(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    this.calls.push(`restart ${spec.sandboxId}`);
    this.states.set(spec.sandboxId, 'exited');
    await this.#hangIfAsked('restart', spec.sandboxId, options.signal);
    if (this.holds.has('restart')) await Promise.race([this.holds.get('restart'), aborted(options.signal)]);
    this.#failIfAsked('restart');
    this.states.set(spec.sandboxId, 'running');
    this.exposed.set(spec.sandboxId, spec.udpPorts);
    return this.#mounted(spec, 'cold');
  }

  async exposeUdp(sandboxId: SandboxId, ports: readonly UdpMapping[]): Promise<void> {
    this.calls.push(`expose ${sandboxId} ${ports.map((each) => `${each.hostPort}:${each.servicePort}`).join(' ')}`);
    this.#failIfAsked('expose');
    this.exposed.set(sandboxId, ports);
  }

  async stop(sandboxId: SandboxId): Promise<void> {
    this.calls.push(`stop ${sandboxId}`);
    this.hanging.get(sandboxId)?.abort();
    if (this.states.has(sandboxId)) this.states.set(sandboxId, 'exited');
  }

  async remove(sandboxId: SandboxId): Promise<void> {
    this.calls.push(`remove ${sandboxId}`);
    this.states.delete(sandboxId);
    this.exposed.delete(sandboxId);
  }

  async inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    const state = this.states.get(sandboxId) ?? 'absent';
    const run = this.runs.get(sandboxId) ?? null;
    return { sandboxId, state, run, place: state === 'running' ? this.#place('existing') : null, exit: null };
  }

  async list(): Promise<SandboxInspection[]> {
    return Promise.all([...this.states.keys()].map((id) => this.inspect(id)));
  }

  async usage(): Promise<SandboxUsage[]> {
    return [];
  }

  onExit(listener: (exit: SandboxExit) => unknown): void {
    this.#listener = listener;
  }

  /** Simulates that the processes of a sandbox end on their own. */
  exit(sandboxId: SandboxId, exit: Omit<SandboxExit, 'sandboxId' | 'run'>): void {
    this.states.set(sandboxId, 'exited');
    this.#listener?.({ sandboxId, run: this.runs.get(sandboxId) ?? null, ...exit });
  }

  #mounted({ sandboxId, run, storage }: SandboxSpec, from: SandboxPlace['from']): SandboxPlace {
    this.runs.set(sandboxId, run);
    this.storage.set(sandboxId, storage);
    return { ...this.#place(from), ...(storage && { slots: [...storage.slots] }) };
  }

  #requireLayer(what: 'changes' | 'tree'): PackedLayer {
    const layer = this.layers.get(what);
    if (!layer) throw new DriverError('changes_not_packable', 'The test has given no layer');
    return layer;
  }

  #failIfAsked(kind: FailingCall): void {
    const failure = this.failAlways.get(kind) ?? this.failNext.get(kind);
    this.failNext.delete(kind);
    if (failure) throw failure;
  }

  async #hangIfAsked(kind: HangingCall, sandboxId: SandboxId, signal?: AbortSignal): Promise<void> {
    if (!this.hangs.has(`${kind} ${sandboxId}`) && !this.hangs.has(`${kind} all`)) return;
    const stopper = new AbortController();
    this.hanging.set(sandboxId, stopper);
    try {
      await aborted(signal ? AbortSignal.any([signal, stopper.signal]) : stopper.signal);
    } finally {
      this.hanging.delete(sandboxId);
    }
  }

  #place(from: SandboxPlace['from']): SandboxPlace {
    return { address: '10.99.0.2', agentPort: 49_983, from };
  }
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const abort = () => reject(new DriverError('aborted', 'The start was cancelled'));
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}
