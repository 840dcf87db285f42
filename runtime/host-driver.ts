import type { SandboxId } from '../domain/ids.ts';
import type { DiskRoom } from './disk/disk-room.ts';
import type { SandboxDriver, SandboxSpec } from './driver.ts';

/** Ports of the host, both ends included. */
export interface PortRange {
  first: number;
  last: number;
}

/** Lets a host's sandboxes run only as long as the host may have them. */
export interface HostFence {
  /** They may run until then, by `uptimeSeconds`. A process of its own sees to it, also after this one's end. */
  keepOpenUntil(uptimeSeconds: number): Promise<void>;
  /** Whether all of them are frozen or about to be. */
  readonly isClosed: boolean;
  /**
   * Thaws them; those that are paused stay so.
   * @returns false when the disk has no room for what they would write; they stay frozen
   */
  open(): Promise<boolean>;
}

/** The same, where it keeps a part of the disk free. */
export interface DiskFence extends HostFence {
  /** How much of the disk sandboxes must leave free: all are frozen before they take it. */
  keepFree(bytes: number): Promise<void>;
}

/** The disk space of the host that a running sandbox occupies. */
export interface DiskUse {
  sandboxId: SandboxId;
  /** The start or resume that brought up its processes; null where none was numbered. */
  run: number | null;
  /** Includes what it wrote and what is not on the disk yet. */
  bytes: number;
  /** All of its processes are frozen. */
  isFrozen: boolean;
}

/** A sandbox whose link should be there. */
export interface LinkedSandbox {
  sandboxId: SandboxId;
  allowInternetAccess: boolean;
}

/** All that a host worker needs of the place where its sandboxes run. */
export interface HostDriver extends SandboxDriver {
  /** The host's address that sandboxes see: the only one of its own that they reach anything on. */
  readonly gateway: string;
  /** The address at which clients on other machines reach this one, as far as it is known. */
  readonly hostAddress: string;
  /** Ports of the host that may lead to UDP ports of sandboxes. Null: none. */
  readonly udpRange: PortRange | null;
  /** Holds all sandboxes of this copy. */
  readonly fence: DiskFence;
  /** Folder of the sandboxes' disks. */
  readonly diskFolder: string;
  /** What is free there, less what sandboxes wrote that is not on the disk yet. */
  diskRoom(): DiskRoom;
  /** Of each sandbox that is not paused. */
  diskUse(): Promise<DiskUse[]>;
  /** Freezes its processes and returns at once; `pause` makes it a pause. */
  halt(sandboxId: SandboxId): Promise<void>;
  /** Ends its processes, whatever else is under way with it; its disk stays. `onExit` is not called. */
  endAtOnce(sandboxId: SandboxId): Promise<void>;
  /** Removes everything of this copy that belongs to no sandbox of the list. Call it when the host starts. */
  reconcile(knownSandboxIds: Iterable<SandboxId>): Promise<unknown>;
  /**
   * Makes links and routes of running and frozen sandboxes again that were taken away from outside.
   * @returns the sandboxes that had lost something
   */
  repairLinks(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]>;
  /** Which of these run without their agent, and should get it again now. */
  withoutAgent(sandboxIds: Iterable<SandboxId>): SandboxId[];
  /**
   * Starts the agent of a running sandbox again if it has ended; everything else in the sandbox goes on. Returns once the
   * agent runs, or has not come in time. What goes wrong is logged, and the sandbox is due again later.
   */
  restartAgent(spec: SandboxSpec): Promise<void>;
  /** Which sandbox has this address now. Null: none. */
  sandboxAt(address: string): Promise<SandboxId | null>;
  /** Stops watching and ends the warm pool; sandboxes go on. */
  close(): Promise<void>;
}
