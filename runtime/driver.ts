import type { AccountId, SandboxId } from '../domain/ids.ts';
import type { MountCredentials, MountSlot } from '../domain/object-storage.ts';
import type { UdpMapping } from '../domain/ports.ts';
import type { ReadyProbe, SandboxCommand } from '../domain/template-commands.ts';

/**
 * Where sandboxes run. One implementation for this machine (`oci/`); a Kubernetes one can stand beside it. A host
 * worker holds exactly one driver; activities call nothing else to touch the world of containers.
 *
 * Every method is idempotent: an activity that is retried after a crash calls it again with the same arguments and
 * gets the same result. `sandboxId` is the only key.
 */
export interface SandboxDriver {
  /**
   * Makes the sandbox and returns when it is ready. `onPhase` is called as the work reaches each phase.
   * A half-made one from an earlier try is finished or replaced. On failure nothing of the sandbox is left running,
   * but its disk may stay until `remove`.
   * @throws {DriverError}
   */
  create(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Freezes every process. Pausing a paused one succeeds.
   * @throws {DriverError} `pause_failed` when the freeze does not take in time; the sandbox then runs on.
   */
  pause(sandboxId: SandboxId, signal?: AbortSignal): Promise<void>;

  /**
   * Thaws a paused sandbox, or starts it again on its disk when its processes are gone (from `spec`).
   * @throws {DriverError} `agent_not_answering` when the thawed processes do not; they are frozen again
   */
  resume(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Returns whether a start of this sandbox on its disk could begin; changes nothing.
   * @throws {DriverError} `host_disk_full`, `image_pull_failed`, `sandbox_absent`
   */
  requireStartable(spec: SandboxSpec, options?: CreateOptions): Promise<void>;

  /**
   * Ends every process, running or frozen, and starts the sandbox again on its disk. Asks nothing of what runs in it.
   * Processes that `spec.run` has brought up already are left alone.
   * @throws {DriverError} with nothing left running
   */
  restart(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Makes these ports of the host lead to UDP ports of a sandbox that runs or is frozen, and no others.
   * @throws {DriverError} `sandbox_absent`
   */
  exposeUdp(sandboxId: SandboxId, ports: readonly UdpMapping[]): Promise<void>;

  /**
   * Ends every process and takes its network away; the disk stays. Works in every state, absent included. Cancels a
   * create, a resume or a pause of the sandbox that is under way or waits, and needs nothing from its agent.
   */
  stop(sandboxId: SandboxId): Promise<void>;

  /** Removes everything that is left: disk, folders, reservations of addresses. Works in every state, absent included. */
  remove(sandboxId: SandboxId): Promise<void>;

  /** The state on this machine, read afresh. */
  inspect(sandboxId: SandboxId): Promise<SandboxInspection>;

  /** Everything this host holds, for reconciliation. */
  list(): Promise<SandboxInspection[]>;

  /**
   * What each sandbox that runs has used so far; paused ones are left out. Called every few seconds, so it must cost
   * next to nothing for each of them.
   */
  usage(): Promise<SandboxUsage[]>;

  /**
   * Calls back for each sandbox whose processes end without `stop` or `pause` having been asked, and awaits what the
   * listener returns; an end that no listener took before a crash is reported again after it.
   */
  onExit(listener: (exit: SandboxExit) => unknown): void;
}

/** What a sandbox is made from. */
export interface SandboxSpec {
  sandboxId: SandboxId;
  /** The number of this start or resume; given back with what is seen of the processes it brings up. */
  run: number | null;
  /** The account that has it: the host shares what it can do at once between accounts. */
  accountId: AccountId;
  /** Image reference: `registry/repository@sha256:…`, `registry/repository:tag`, `builtin:base` or `builtin:code-interpreter`. */
  image: string;
  cpuCount: number;
  memoryMb: number;
  storageGb: number;
  allowInternetAccess: boolean;
  /** The environment of every process started inside. */
  env: Record<string, string>;
  /** Ports of the host that lead to its UDP ports from when it runs. */
  udpPorts: readonly UdpMapping[];
  /** Its mounts, as they should be from when it runs. Undefined: it has none. */
  storage?: WantedMounts;
  /** What `X-Access-Token` must carry. Null: anyone who knows the domain is served (`secure: false`). */
  accessToken: string | null;
  /** Opens the agent's `/platform/…` paths; known to the platform alone. */
  platformToken: string;
  /** The template's own command, started by the agent once it is up. Null: none. */
  command: SandboxCommand | null;
  /** When the sandbox counts as ready. Null: as soon as the agent answers. */
  readyProbe: ReadyProbe | null;
}

/** What a sandbox's mounts of object storage should be. */
export interface WantedMounts {
  slots: readonly MountSlot[];
  /** Of the slots that are to be mounted anew; the others are there, or cannot be. */
  credentials: Record<number, MountCredentials>;
  /** By the image's own s3fs, which runs in the sandbox; otherwise by the host's. */
  direct?: DirectMount;
  /** A bucket that cannot be mounted becomes `disabled`; the start does not fail. */
  bestEffort: boolean;
}

export interface DirectMount {
  /** In the sandbox: an absolute path, or a name to look for in `PATH`. */
  s3fsPath: string;
}

export type CreatePhase = 'deploying' | 'initializing' | 'waiting_ready';

export interface CreateOptions {
  onPhase?: (phase: CreatePhase) => void | Promise<void>;
  signal?: AbortSignal;
}

/** Where the gateway finds a running sandbox. */
export interface SandboxPlace {
  /** IPv4 address of the sandbox on its own link to the host. */
  address: string;
  /** The agent's port on that address. */
  agentPort: number;
  /** Its mounts as they came to be; present where `spec.storage` asks for some. */
  slots?: MountSlot[];
  /** How the sandbox came to be; for measuring. */
  from: 'pool' | 'cold' | 'thaw' | 'existing';
}

export interface SandboxInspection {
  sandboxId: SandboxId;
  /** `exited`: its processes ended, its disk is there. `absent`: nothing of it is left. */
  state: 'running' | 'paused' | 'exited' | 'absent';
  /** The start or resume that last brought up its processes; null where none is known. */
  run: number | null;
  place: SandboxPlace | null;
  exit: SandboxExit | null;
}

/** Counters and levels of one running sandbox at one moment. */
export interface SandboxUsage {
  sandboxId: SandboxId;
  /** The moment, and the one its counters count from; milliseconds of a clock that never jumps. */
  atMs: number;
  sinceMs: number;
  /** Processor time of all its cores together since `sinceMs`. */
  cpuSeconds: number;
  /** Without file cache that the kernel would give up at once. */
  memoryBytes: number;
  diskBytes: number;
  diskTotalBytes: number;
  /** Through its network since `sinceMs`, as the sandbox sees it. */
  receivedBytes: number;
  sentBytes: number;
}

/** How the processes of a sandbox ended; kept for `failed` sandboxes. */
export interface SandboxExit {
  sandboxId: SandboxId;
  /** The start or resume that brought them up. */
  run: number | null;
  /** Null: they are gone, and nothing recorded how they ended. */
  exitCode: number | null;
  /** The kernel killed something in it for lack of memory. */
  outOfMemory: boolean;
  /** The last 8 KiB its command wrote, as UTF-8; empty when it has none. */
  commandOutput: string;
}

export type DriverErrorCode =
  | 'image_pull_failed'
  | 'host_disk_full'
  | 'start_failed'
  | 'not_ready'
  | 'agent_not_answering'
  | 'runtime_exited'
  | 'pause_failed'
  | 'object_storage_mount_failed'
  | 'object_storage_credentials_required'
  | 'sandbox_absent'
  | 'aborted';

/** A failure with a text that may be shown to the sandbox's owner; the cause stays inside. */
export class DriverError extends Error {
  override name = 'DriverError';
  readonly code: DriverErrorCode;
  /** Trying the same again may help. */
  readonly retryable: boolean;
  readonly exit: SandboxExit | null;

  constructor(
    code: DriverErrorCode,
    message: string,
    options: { cause?: unknown; retryable?: boolean; exit?: SandboxExit } = {},
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.exit = options.exit ?? null;
  }
}
