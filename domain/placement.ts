import type { RegionWish } from './regions.ts';

/** What a host has and what is reserved on it. */
export interface HostRoom {
  hostId: string;
  region: string;
  cpu: { capacity: number; reserved: number };
  memoryMb: { capacity: number; reserved: number };
  diskGb: { capacity: number; reserved: number };
  /** Of the host's range that leads to sandboxes. */
  udpPorts: { capacity: number; reserved: number };
  /** Which of its disks is nearly full: that of the sandboxes, or the one that images are unpacked on. */
  fullDisk?: FullDisk | null;
}

export type FullDisk = 'data' | 'cache';

export interface RoomNeeded {
  cpu: number;
  memoryMb: number;
  diskGb: number;
  udpPorts: number;
}

/** The best fit of the nearest region that has room. Null: none has, or none where the region is forced. */
export function chooseHost(hosts: readonly HostRoom[], needed: RoomNeeded, wish: RegionWish): HostRoom | null {
  for (const region of wish.forced ? wish.nearest.slice(0, 1) : wish.nearest) {
    const host = bestFit(
      hosts.filter((each) => each.region === region),
      needed,
    );
    if (host) return host;
  }
  return wish.forced ? null : bestFit(hosts, needed);
}

/** The fullest host that still has room (best fit), so that large sandboxes find space later. Null: none has. */
export function bestFit(hosts: readonly HostRoom[], needed: RoomNeeded): HostRoom | null {
  let best: { host: HostRoom; left: number } | null = null;
  for (const host of hosts) {
    if (!fits(host, needed)) continue;
    const left =
      (host.memoryMb.capacity - host.memoryMb.reserved - needed.memoryMb) / Math.max(1, host.memoryMb.capacity);
    if (!best || left < best.left) best = { host, left };
  }
  return best?.host ?? null;
}

/** Whether a host can take this much more. */
export function fits(host: HostRoom, needed: RoomNeeded): boolean {
  return (
    !isDiskFull(host, needed) &&
    host.cpu.reserved + needed.cpu <= host.cpu.capacity &&
    host.memoryMb.reserved + needed.memoryMb <= host.memoryMb.capacity &&
    host.diskGb.reserved + needed.diskGb <= host.diskGb.capacity &&
    host.udpPorts.reserved + needed.udpPorts <= host.udpPorts.capacity
  );
}

/** Whether a nearly full disk of the host stands in the way. What resumes has its image and its disk already. */
export function isDiskFull(host: HostRoom, needed: RoomNeeded): boolean {
  return host.fullDisk === 'data' || (host.fullDisk === 'cache' && needed.diskGb > 0);
}
