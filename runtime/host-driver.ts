import type { SandboxId } from '../domain/ids.ts';
import type { DiskRoom } from './disk/disk-room.ts';
import type { SandboxDriver, SandboxSpec } from './driver.ts';

/** Ports of the host, both ends included. */
export interface PortRange {
  first: number;
  last: number;
}

/** Lets a host's sandboxes run only as long as the host's lease is valid. */
export interface HostFence {
  /** They may run until then, by `uptimeSeconds`. A process of its own enforces it, also after this one has ended. */
  keepOpenUntil(uptimeSeconds: number): Promise<void>;
  /** Whether all of them are frozen (on a cluster: ended), or about to be. */
  readonly isClosed: boolean;
  /**
   * Thaws them, except paused ones.
   * @returns false when the disk has no room for their writes, so that they stay frozen, or none is frozen
   */
  open(): Promise<boolean>;
}

/** A fence that also keeps a part of the disk free. */
export interface DiskFence extends HostFence {
  /** How much of the disk sandboxes must leave free: all are frozen before they use it. */
  keepFree(bytes: number): Promise<void>;
}

/** The disk space of the host that a running sandbox uses. */
export interface DiskUse {
  sandboxId: SandboxId;
  /** The start or resume of its processes; null when it has no number. */
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

/** How far a host is with an image that it makes itself. */
export interface HostImageState {
  /** `builtin:<template>`. */
  image: string;
  status: 'building' | 'available' | 'failed';
  /** With `failed`: why, for everybody. */
  message: string | null;
}

/** The images that a host makes itself; one build of each at a time. */
export interface HostImages {
  readonly names: readonly string[];
  /** Whether it can be used at once. */
  isMade(image: string): Promise<boolean>;
  /** Makes it where it is missing. @param signal ends the wait, not the build */
  get(image: string, signal: AbortSignal): Promise<unknown>;
  /** Calls back when a build begins, and how it ended. */
  onChange(listener: (state: HostImageState) => void): void;
}

/** How much of its processors and memory the place of the sandboxes has, and what all of its processes use. */
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
  /** Percent of the last seconds in which every process that had work waited for memory. */
  stalledPct: number;
}

/** Everything that a host worker needs of the place where its sandboxes run. */
export interface HostDriver extends SandboxDriver {
  /**
   * The host's address that sandboxes see: the only address of the host on which they reach anything. Null: they reach
   * none.
   */
  readonly gateway: string | null;
  /** The address at which clients on other machines reach this one; empty where it is not known. */
  readonly hostAddress: string;
  /** The network of its sandboxes, as CIDR. */
  readonly subnet: string;
  /** Ports of the host that may lead to UDP ports of sandboxes. Null: none. */
  readonly udpRange: PortRange | null;
  /** What this host has and uses, from which its room for sandboxes follows. */
  readonly load: HostLoad;
  /** Governs all sandboxes of this copy. */
  readonly fence: DiskFence;
  /** Folder of the sandboxes' disks. Null: they are on no file system of this machine. */
  readonly diskFolder: string | null;
  /** Free space there, less written data that is not on the disk yet. */
  diskRoom(): DiskRoom;
  /** Free space and what sandboxes hold, together: it does not depend on how much they have written. */
  diskCapacityBytes(): number;
  /** Of each sandbox that is not paused. */
  diskUse(): Promise<DiskUse[]>;
  /** Freezes its processes and returns at once; a `pause` afterwards makes it a pause. */
  halt(sandboxId: SandboxId): Promise<void>;
  /** Ends its processes and cancels other work on it; its disk stays. `onExit` is not called. */
  endAtOnce(sandboxId: SandboxId): Promise<void>;
  /** Removes everything of this copy that belongs to no sandbox of the list. Call it when the host starts. */
  reconcile(knownSandboxIds: Iterable<SandboxId>): Promise<unknown>;
  /**
   * Restores links and routes of running and frozen sandboxes that something outside has removed.
   * @returns the sandboxes that had lost something
   */
  repairLinks(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]>;
  /** The sandboxes of these that run without their agent, whose agent should be started again now. */
  withoutAgent(sandboxIds: Iterable<SandboxId>): SandboxId[];
  /**
   * Starts the agent of a running sandbox again if it has ended; everything else in the sandbox continues. Returns once
   * the agent runs, or did not start in time. Failures are logged, and the sandbox is due again later.
   */
  restartAgent(spec: SandboxSpec): Promise<void>;
  /** How many frozen sandboxes are ready to be used. */
  readonly poolReady: number;
  /** Images that frozen sandboxes are kept ready of, beside the base image. */
  readonly pooledImages: readonly string[];
  /** Ends those of an image that no template has any more. */
  dropPooled(image: string): Promise<void>;
  /** Images of built-in templates, which the host makes itself. */
  readonly builtinImages: HostImages;
  /** Which sandbox has this address now. Null: none. */
  sandboxAt(address: string): Promise<SandboxId | null>;
  /** Stops watching and ends the warm pool; sandboxes go on. */
  close(): Promise<void>;
}
