import type { SandboxId } from '../domain/ids.ts';
import type { DiskSpace } from './disk/disk-space.ts';
import type { SandboxDriver, SandboxSpec } from './driver.ts';

/** An inclusive range of ports of the host. */
export interface PortRange {
  first: number;
  last: number;
}

/** Allows a host's sandboxes to run only while the host's lease is valid. */
export interface HostFence {
  /**
   * Allows them to run until then, by `uptimeSeconds`. A separate process enforces it, even after this process has
   * ended.
   */
  keepOpenUntil(uptimeSeconds: number): Promise<void>;
  /** Whether all of them are frozen (on a cluster: ended), or are about to be. */
  readonly isClosed: boolean;
  /**
   * Thaws them, except paused ones.
   * @returns false when none is frozen, or when they stay frozen because the disk has no space for their writes
   */
  open(): Promise<boolean>;
}

/** A fence that also keeps a part of the disk free. */
export interface DiskFence extends HostFence {
  /** The bytes of the disk that sandboxes must leave free. All are frozen before they use these bytes. */
  keepFree(bytes: number): Promise<void>;
}

/** The use of the host's disk by a running sandbox. */
export interface DiskUse {
  sandboxId: SandboxId;
  /** The start or resume of its processes. Null: it has no number. */
  run: number | null;
  /** Includes written data that is not on the disk yet. */
  bytes: number;
  /** All of its processes are frozen. */
  isFrozen: boolean;
}

/** A sandbox whose link should exist. */
export interface LinkedSandbox {
  sandboxId: SandboxId;
  allowInternetAccess: boolean;
}

/** The state of an image that a host makes itself. */
export interface HostImageState {
  /** `builtin:<template>`. */
  image: string;
  status: 'building' | 'available' | 'failed';
  /** With `failed`: the public reason. */
  message: string | null;
}

/** The images that a host makes itself. Each has at most one build at a time. */
export interface HostImages {
  readonly names: readonly string[];
  /** Whether the image can be used at once. */
  isMade(image: string): Promise<boolean>;
  /** Makes the image if it is missing. @param signal ends the wait, not the build */
  get(image: string, signal: AbortSignal): Promise<unknown>;
  /** Calls back when a build begins and when it ends. */
  onChange(listener: (state: HostImageState) => void): void;
}

/** The processors and memory of the place where sandboxes run, and their use by all processes. */
export interface HostLoad {
  readonly coreCount: number;
  memory(): HostMemory;
  /** The share of processor time used since the last call, 0 to 1. */
  processorUsed(): number;
}

/** In MB. */
export interface HostMemory {
  totalMb: number;
  /** Memory that new processes could get without swapping. */
  availableMb: number;
  /** The percentage of the last seconds in which all processes with work waited for memory. */
  stalledPct: number;
}

/** The part of the last minute in which at least one process had to wait for the resource, 0 to 1. */
export type Pressure = Record<'cpu' | 'memory' | 'io', number>;

/** Everything that a host worker needs from the place where its sandboxes run. */
export interface HostDriver extends SandboxDriver {
  /**
   * The host's address for sandboxes. It is the only address of the host that they can reach. Null: they can reach
   * none.
   */
  readonly gateway: string | null;
  /** The address at which clients on other machines reach this machine. Empty: unknown. */
  readonly hostAddress: string;
  /** The network of its sandboxes, as CIDR. */
  readonly subnet: string;
  /** Ports of the host that may be forwarded to UDP ports of sandboxes. Null: none. */
  readonly udpRange: PortRange | null;
  /** The resources and the load of this host, which determine its capacity for sandboxes. */
  readonly load: HostLoad;
  /** How much the sandboxes together wait for processors, memory and disks. Absent or null: the kernel does not tell. */
  pressure?(): Pressure | null;
  /** The seconds by which each starting sandbox delays those behind it. Null or absent: not known. */
  readonly secondsPerStart?: number | null;
  /** The fence of all sandboxes of this copy. */
  readonly fence: DiskFence;
  /** The folder of the sandboxes' disks. Null: the disks are on no file system of this machine. */
  readonly diskFolder: string | null;
  /** Free space in that folder, less written data that is not on the disk yet. */
  diskSpace(): DiskSpace;
  /** The sum of free space and the sandboxes' disks. It does not depend on how much they have written. */
  diskCapacityBytes(): number;
  /** The disk use of each sandbox that is not paused. */
  diskUse(): Promise<DiskUse[]>;
  /** Freezes the processes of a sandbox and returns at once. A later `pause` makes it a pause. */
  halt(sandboxId: SandboxId): Promise<void>;
  /** Ends the processes of a sandbox and cancels other work on it. Its disk stays. `onExit` is not called. */
  endNow(sandboxId: SandboxId): Promise<void>;
  /** Removes everything of this copy that belongs to no sandbox of the list. Call this when the host starts. */
  reconcile(knownSandboxIds: Iterable<SandboxId>): Promise<unknown>;
  /**
   * Restores links and routes of running and frozen sandboxes that something outside the platform has removed.
   * @returns the sandboxes with restored links or routes
   */
  repairLinks(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]>;
  /** The sandboxes of the list that run without their agent, and whose agent should be restarted now. */
  withoutAgent(sandboxIds: Iterable<SandboxId>): SandboxId[];
  /**
   * Restarts the agent of a running sandbox if it has ended. Everything else in the sandbox continues. Returns when the
   * agent runs, or failed to start in time. Failures are logged, and the sandbox is due again later.
   */
  restartAgent(spec: SandboxSpec): Promise<void>;
  /** The number of frozen sandboxes, or of pods without a sandbox, that are ready to be used. */
  readonly poolReady: number;
  /** Images of which frozen sandboxes are kept ready, except the base image. */
  readonly pooledImages: readonly string[];
  /** Ends the frozen sandboxes of an image that no template has any more. */
  dropPooled(image: string): Promise<void>;
  /** Images of built-in templates, made by the host. */
  readonly builtinImages: HostImages;
  /** The sandbox that currently has this address. Null: none. */
  sandboxAt(address: string): Promise<SandboxId | null>;
  /** Stops the watches and ends the warm pool. Sandboxes continue. */
  close(): Promise<void>;
  /** After `close`: removes everything of this copy from the machine unless a sandbox runs or is frozen. */
  leaveIfEmpty(): Promise<void>;
}
