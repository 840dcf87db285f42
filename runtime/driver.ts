import type { AccountId, SandboxId } from '../domain/ids.ts';
import type { MountCredentials, MountSlot } from '../domain/object-storage.ts';
import type { UdpMapping } from '../domain/ports.ts';
import type { ReadyProbe, SandboxCommand } from '../domain/template-commands.ts';

/**
 * Where sandboxes run. One implementation for this machine (`oci/`), one for a cluster (`kubernetes/`). A host worker
 * holds exactly one driver, and activities reach containers only through it. Every method is idempotent: an activity
 * that is retried after a crash calls it again with the same arguments and gets the same result. `sandboxId` is the
 * only key.
 */
export interface SandboxDriver {
  /**
   * Makes the sandbox and returns when it is ready. `onPhase` is called as the work reaches each phase. A half-made
   * sandbox of an earlier try is finished or replaced. On failure nothing of the sandbox is left running, but its disk
   * may stay until `remove`.
   * @throws {DriverError}
   */
  create(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Freezes every process; where nothing can freeze them, it ends them and keeps the disk. Pausing a paused sandbox
   * succeeds.
   * @throws {DriverError} `pause_failed` when the freeze does not take effect in time; the sandbox then runs on
   */
  pause(sandboxId: SandboxId, signal?: AbortSignal): Promise<PauseResult>;

  /**
   * Thaws a paused sandbox, or starts it again on its disk when its processes are gone (from `spec`).
   * @throws {DriverError} `agent_not_answering` when the agent does not answer after the thaw; the processes are frozen
   *   again
   */
  resume(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Returns whether a start of this sandbox on its disk could begin; changes nothing.
   * @throws {DriverError} `host_disk_full`, `image_pull_failed`, `sandbox_absent`
   */
  requireStartable(spec: SandboxSpec, options?: CreateOptions): Promise<void>;

  /**
   * Ends every process, running or frozen, and starts the sandbox again on its disk, without asking anything inside.
   * Processes that an earlier try of `spec.run` has started are left alone.
   * @throws {DriverError} with nothing left running
   */
  restart(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Maps these ports of the host, and no others, to UDP ports of a sandbox that runs or is frozen.
   * @throws {DriverError} `sandbox_absent`
   */
  exposeUdp(sandboxId: SandboxId, ports: readonly UdpMapping[]): Promise<void>;

  /**
   * Ends every process and removes the network; the disk stays. Works in every state, also without a sandbox. Cancels a
   * create, resume or pause of the sandbox that runs or waits, and needs nothing from its agent.
   */
  stop(sandboxId: SandboxId): Promise<void>;

  /**
   * Removes everything that is left: disk, folders, reservations of addresses. Works in every state, also without a
   * sandbox.
   */
  remove(sandboxId: SandboxId): Promise<void>;

  /** The state on this machine, read now. */
  inspect(sandboxId: SandboxId): Promise<SandboxInspection>;

  /** Everything this host holds, for reconciliation. */
  list(): Promise<SandboxInspection[]>;

  /**
   * What each running sandbox has used so far; paused ones are left out. Called every few seconds, so it must be very
   * cheap for each.
   */
  usage(): Promise<SandboxUsage[]>;

  /**
   * Calls back for each sandbox whose processes end without a `stop` or `pause`, and awaits the listener; an end that
   * no listener had taken before a crash is reported again afterwards.
   */
  onExit(listener: (exit: SandboxExit) => unknown): void;

  /** Makes images of sandboxes. */
  readonly builds: ImageBuilds;
}

/**
 * Makes layers of images from the disks of sandboxes. What a build has made lies on this host under the build's id until
 * `discard`; a step that is done already is not done again.
 */
export interface ImageBuilds {
  /**
   * Copies the disk of a sandbox, whose processes stand still meanwhile and then go on; a frozen one stays frozen.
   * @throws {DriverError} `sandbox_absent`, `host_disk_full`, `snapshot_failed`
   */
  copyDisk(buildId: string, sandboxId: SandboxId, signal?: AbortSignal): Promise<DiskCopy>;

  /**
   * Packs what the copied disk has changed of its image.
   * @throws {DriverError} `changes_not_packable`, with what an image cannot hold
   */
  packChanges(buildId: string, accountId: AccountId, signal?: AbortSignal): Promise<PackedLayer>;

  /**
   * Packs the whole tree of an image that is in no registry of the platform, and says what its processes are given.
   * @throws {DriverError} as `create` does
   */
  packImage(buildId: string, image: string, accountId: AccountId, signal?: AbortSignal): Promise<PackedImage>;

  /** Names an image that hosts make themselves, or pull from elsewhere, by what is in it. @throws as `create` does */
  imageDigest(image: string, signal?: AbortSignal): Promise<string>;

  discard(buildId: string): Promise<void>;
}

/** What a pause keeps of a sandbox. `disk`: its processes are gone, and a resume starts it again. */
export interface PauseResult {
  kept: 'memory' | 'disk';
}

/** How a disk was copied. */
export interface DiskCopy {
  /** How long the sandbox stood still. */
  standstillMs: number;
  /** What the copy took in this time; 0 where the file system shares blocks. */
  bytes: number;
}

/** A layer in a file of this host, as a registry takes it. */
export interface PackedLayer {
  file: string;
  mediaType: string;
  digest: string;
  size: number;
  /** Of the archive before its compression. */
  diffId: string;
}

export interface PackedImage {
  layer: PackedLayer;
  /** The `config` of an OCI image configuration. */
  config: { Env: string[]; WorkingDir?: string; User?: string; Entrypoint?: string[]; Cmd?: string[] };
}

/** What a sandbox is made from. */
export interface SandboxSpec {
  sandboxId: SandboxId;
  /** The number of this start or resume; every report about the processes that it starts repeats it. */
  run: number | null;
  /** The account that owns it: the host shares its capacity between accounts. */
  accountId: AccountId;
  /** Image reference: `registry/repository@sha256:…`, `registry/repository:tag`, `builtin:base` or `builtin:code-interpreter`. */
  image: string;
  cpuCount: number;
  memoryMb: number;
  storageGb: number;
  allowInternetAccess: boolean;
  /** The environment of every process started inside. */
  env: Record<string, string>;
  /** Ports of the host that lead to its UDP ports from its start on. */
  udpPorts: readonly UdpMapping[];
  /** The mounts that it should have from its start on. Undefined: none. */
  storage?: WantedMounts;
  /** The token that `X-Access-Token` must carry. Null: anyone who knows the domain is served (`secure: false`). */
  accessToken: string | null;
  /** Opens the agent's `/platform/…` paths; only the platform knows it. */
  platformToken: string;
  /** The template's own command, started by the agent once it is up. Null: none. */
  command: SandboxCommand | null;
  /** When the sandbox counts as ready. Null: as soon as the agent answers. */
  readyProbe: ReadyProbe | null;
}

/** The mounts of object storage that a sandbox should have. */
export interface WantedMounts {
  slots: readonly MountSlot[];
  /** By slot, for those to mount anew; the others are mounted, or cannot be. */
  credentials: Record<number, MountCredentials>;
  /** Mount with the image's own s3fs, which runs in the sandbox; otherwise with the host's. */
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
  /** Its mounts after the start; present if `spec.storage` has some. */
  slots?: MountSlot[];
  /** The steps by which the sandbox came to be; for measurements. */
  from: 'pool' | 'cold' | 'thaw' | 'existing';
}

export interface SandboxInspection {
  sandboxId: SandboxId;
  /** `exited`: its processes ended, its disk is there. `absent`: nothing of it is left. */
  state: 'running' | 'paused' | 'exited' | 'absent';
  /** The last start or resume of its processes; null when it is not known. */
  run: number | null;
  place: SandboxPlace | null;
  exit: SandboxExit | null;
}

/** Counters and levels of one running sandbox at one moment. */
export interface SandboxUsage {
  sandboxId: SandboxId;
  /** The moment, and the moment from which its counters count; milliseconds of a monotonic clock. */
  atMs: number;
  sinceMs: number;
  /** Processor time of all its cores together since `sinceMs`. */
  cpuSeconds: number;
  /** Without file cache that the kernel would free at once. */
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
  /** The kernel killed a process in it for lack of memory. */
  outOfMemory: boolean;
  /** The last 8 KiB of its command's output, as UTF-8; empty without a command. */
  commandOutput: string;
}

export type DriverErrorCode =
  | 'image_pull_failed'
  | 'image_refused'
  | 'host_disk_full'
  | 'no_capacity'
  | 'host_unavailable'
  | 'not_on_a_cluster'
  | 'start_failed'
  | 'not_ready'
  | 'agent_not_answering'
  | 'runtime_exited'
  | 'pause_failed'
  | 'snapshot_failed'
  | 'changes_not_packable'
  | 'object_storage_mount_failed'
  | 'object_storage_credentials_required'
  | 'sandbox_absent'
  | 'aborted';

/** A failure whose text may be shown to the sandbox's owner; the cause stays inside. */
export class DriverError extends Error {
  override name = 'DriverError';
  readonly code: DriverErrorCode;
  /** Another attempt may succeed. */
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
