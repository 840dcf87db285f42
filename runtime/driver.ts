import type { DiskRates } from '../domain/billing/plans.ts';
import type { AccountId, SandboxId } from '../domain/ids.ts';
import type { MountCredentials, MountSlot } from '../domain/sandboxes/object-storage.ts';
import type { UdpMapping } from '../domain/sandboxes/ports.ts';
import type { ReadyProbe, SandboxCommand } from '../domain/templates/commands.ts';

/**
 * Runs sandboxes. There is one implementation for this machine (`oci/`) and one for a cluster (`kubernetes/`). A host
 * worker has exactly one driver, and activities reach containers only through it. Every method is idempotent: an
 * activity that is retried after a crash calls it again with the same arguments and gets the same result. `sandboxId`
 * is the only key.
 */
export interface SandboxDriver {
  /**
   * Creates the sandbox and returns when it is ready. Calls `onPhase` at the start of each phase. A half-made sandbox
   * of an earlier try is completed or replaced. After a failure no process of the sandbox runs, but its disk may remain
   * until `remove`.
   * @throws {DriverError}
   */
  create(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Freezes every process. If freezing is impossible, ends the processes and keeps the disk. Pausing a paused sandbox
   * succeeds.
   * @throws {DriverError} `pause_failed` when the freeze does not take effect in time; then the sandbox keeps running
   */
  pause(sandboxId: SandboxId, signal?: AbortSignal): Promise<PauseResult>;

  /**
   * Thaws a paused sandbox. If its processes are gone, starts it again on its disk (from `spec`).
   * @throws {DriverError} `agent_not_answering` when the agent does not answer after the thaw; then the processes are
   * frozen again
   */
  resume(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Returns if a start of this sandbox on its disk could begin. Changes nothing.
   * @throws {DriverError} `host_disk_full`, `image_pull_failed`, `sandbox_absent`
   */
  requireStartable(spec: SandboxSpec, options?: CreateOptions): Promise<void>;

  /**
   * Ends every process, running or frozen, and starts the sandbox again on its disk. Needs no response from inside the
   * sandbox. Processes that an earlier try of `spec.run` has started are kept.
   * @throws {DriverError} after which no process runs
   */
  restart(spec: SandboxSpec, options?: CreateOptions): Promise<SandboxPlace>;

  /**
   * Maps exactly these ports of the host to UDP ports of a running or frozen sandbox.
   * @throws {DriverError} `sandbox_absent`
   */
  exposeUdp(sandboxId: SandboxId, ports: readonly UdpMapping[]): Promise<void>;

  /**
   * Ends every process and removes the network. The disk stays. Works in every state, even if there is no sandbox.
   * Cancels a running or waiting create, resume or pause of the sandbox, and needs nothing from its agent.
   */
  stop(sandboxId: SandboxId): Promise<void>;

  /**
   * Removes all remains of the sandbox: disk, folders, reserved addresses. Works in every state, even if there is no
   * sandbox.
   */
  remove(sandboxId: SandboxId): Promise<void>;

  /** The current state of the sandbox, read from this machine. */
  inspect(sandboxId: SandboxId): Promise<SandboxInspection>;

  /** All sandboxes of this host, for reconciliation. */
  list(): Promise<SandboxInspection[]>;

  /**
   * The use of each running sandbox. Paused sandboxes are left out. Called every few seconds, so it must be very cheap
   * for each sandbox.
   */
  usage(): Promise<SandboxUsage[]>;

  /**
   * Calls back for each sandbox whose processes end without a `stop` or `pause`, and awaits the listener. If the
   * process crashes before a listener has returned, that end is reported again afterwards.
   */
  onExit(listener: (exit: SandboxExit) => unknown): void;

  /** Makes images of sandboxes. */
  readonly builds: ImageBuilds;
}

/**
 * Makes image layers from the disks of sandboxes. The results of a build stay on this host under the build's id until
 * `discard`. A completed step is not repeated.
 */
export interface ImageBuilds {
  /**
   * Copies the disk of a sandbox. The sandbox's processes are frozen during the copy and then continue. A frozen
   * sandbox stays frozen.
   * @throws {DriverError} `sandbox_absent`, `host_disk_full`, `snapshot_failed`
   */
  copyDisk(buildId: string, sandboxId: SandboxId, signal?: AbortSignal): Promise<DiskCopy>;

  /**
   * Packs the changes of the copied disk relative to its image.
   * @throws {DriverError} `changes_not_packable`, with the content that an image cannot hold
   */
  packChanges(buildId: string, accountId: AccountId, signal?: AbortSignal): Promise<PackedLayer>;

  /**
   * Packs the whole tree of an image that is in no registry of the platform, and returns the configuration of its
   * processes.
   * @throws {DriverError} as `create` does
   */
  packImage(buildId: string, image: string, accountId: AccountId, signal?: AbortSignal): Promise<PackedImage>;

  /** A digest of the content of an image that hosts make themselves or pull from elsewhere. @throws as `create` does */
  imageDigest(image: string, signal?: AbortSignal): Promise<string>;

  discard(buildId: string): Promise<void>;
}

/** The parts of a sandbox that a pause keeps. `disk`: its processes are gone, and a resume starts it again. */
export interface PauseResult {
  kept: 'memory' | 'disk';
}

/** The measurements of a disk's copy. */
export interface DiskCopy {
  /** How long the sandbox was frozen. */
  frozenMs: number;
  /** The bytes that were copied in this time. 0 if the file system shares blocks. */
  bytes: number;
}

/** A layer in a file of this host, in the form for a registry. */
export interface PackedLayer {
  file: string;
  mediaType: string;
  digest: string;
  size: number;
  /** The digest of the archive before its compression. */
  diffId: string;
}

export interface PackedImage {
  layer: PackedLayer;
  /** The `config` of an OCI image configuration. */
  config: { Env: string[]; WorkingDir?: string; User?: string; Entrypoint?: string[]; Cmd?: string[] };
}

/** The parameters of a sandbox. */
export interface SandboxSpec {
  sandboxId: SandboxId;
  /** The number of this start or resume. Every report about the started processes repeats it. */
  run: number | null;
  /** The account that owns it. The host shares its capacity between accounts. */
  accountId: AccountId;
  /** Image reference: `registry/repository@sha256:…`, `registry/repository:tag`, `builtin:base` or `builtin:code-interpreter`. */
  image: string;
  cpuCount: number;
  memoryMb: number;
  storageGb: number;
  /** The highest rates at which it uses its disk. Undefined: no limit. A cluster cannot limit them. */
  diskRates?: DiskRates;
  allowInternetAccess: boolean;
  /** The environment of every process started inside. */
  env: Record<string, string>;
  /** Ports of the host that are forwarded to its UDP ports from the start on. */
  udpPorts: readonly UdpMapping[];
  /** The wanted mounts from the start on. Undefined: none. */
  storage?: WantedMounts;
  /** The token for `X-Access-Token`. Null: every client that knows the domain is served (`secure: false`). */
  accessToken: string | null;
  /** The token for the agent's `/platform/…` paths. Only the platform knows it. */
  platformToken: string;
  /** The template's own command. The agent starts it when the agent is ready. Null: none. */
  command: SandboxCommand | null;
  /** Without `command`: start the ENTRYPOINT and CMD of the image. Their end does not end the sandbox. */
  startImageCommand?: boolean;
  /** Determines when the sandbox counts as ready. Null: as soon as the agent answers. */
  readyProbe: ReadyProbe | null;
}

/** The wanted mounts of object storage. */
export interface WantedMounts {
  slots: readonly MountSlot[];
  /** By slot, for the mounts that are made anew. The other mounts already exist, or cannot be made. */
  credentials: Record<number, MountCredentials>;
  /** Mount with the image's own s3fs, which runs in the sandbox. Otherwise the host's s3fs is used. */
  direct?: DirectMount;
  /** A bucket that cannot be mounted becomes `disabled` and does not fail the start. */
  bestEffort: boolean;
}

export interface DirectMount {
  /** In the sandbox: an absolute path, or a name that is searched in `PATH`. */
  s3fsPath: string;
}

export type CreatePhase = 'deploying' | 'initializing' | 'waiting_ready';

export interface CreateOptions {
  onPhase?: (phase: CreatePhase) => void;
  signal?: AbortSignal;
}

/** The address of a running sandbox for the gateway. */
export interface SandboxPlace {
  /** IPv4 address of the sandbox on its own link to the host. */
  address: string;
  /** The agent's port on that address. */
  agentPort: number;
  /** Its mounts after the start. Present if `spec.storage` has mounts. */
  slots?: MountSlot[];
  /** How the sandbox was started, for measurements. */
  from: 'pool' | 'cold' | 'thaw' | 'existing';
}

export interface SandboxInspection {
  sandboxId: SandboxId;
  /** `exited`: its processes have ended, and its disk is there. `absent`: nothing of it is left. */
  state: 'running' | 'paused' | 'exited' | 'absent';
  /** The last start or resume of its processes. Null: unknown. */
  run: number | null;
  place: SandboxPlace | null;
  exit: SandboxExit | null;
}

/** Counters and current values of one running sandbox. */
export interface SandboxUsage {
  sandboxId: SandboxId;
  /** The time of the measurement, and the start of its counters, in milliseconds of a monotonic clock. */
  atMs: number;
  sinceMs: number;
  /** Processor time of all its cores since `sinceMs`. */
  cpuSeconds: number;
  /** Without file cache that the kernel would free at once. */
  memoryBytes: number;
  diskBytes: number;
  diskTotalBytes: number;
  /** Bytes through its network since `sinceMs`, from the sandbox's view. */
  receivedBytes: number;
  sentBytes: number;
}

/** How the processes of a sandbox ended. Stored for `failed` sandboxes. */
export interface SandboxExit {
  sandboxId: SandboxId;
  /** The start or resume that started the processes. */
  run: number | null;
  /** Null: the processes are gone and their exit was not recorded. */
  exitCode: number | null;
  /** The kernel killed a process of the sandbox because memory was exhausted. */
  outOfMemory: boolean;
  /** The last 8 KiB of its command's output, as UTF-8. Empty without a command. */
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

/** A failure with a text that the sandbox's owner may see. The cause stays inside the platform. */
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
