import { AppError, type ErrorDetail } from '../errors.ts';

/** A mount in its stored form, without its credentials. */
export interface MountSlot {
  /**
   * The number stays with the mount until the mount is deleted. The next new mount takes the number of a deleted one.
   */
  slot: number;
  /** `disabled`: known, but not mounted. `free`: deleted, and the next new mount takes its number. */
  state: 'active' | 'disabled' | 'free';
  uri: string;
  mountPoint: string;
  region: string | null;
  endpoint: string | null;
  /** The credentials are temporary. */
  shortLived: boolean;
}

/** These are never stored, returned or logged. */
export interface MountCredentials {
  accessKey: string;
  secretKey: string;
  sessionToken: string | null;
}

/** One mount of a request. */
export interface WantedMount {
  uri: string;
  mountPoint: string;
  region: string | null;
  endpoint: string | null;
  credentials: MountCredentials;
}

/** One change of a resume, addressed by mount point. */
export type MountChange =
  | ({ kind: 'upsert' } & WantedMount)
  | { kind: 'delete'; mountPoint: string }
  | { kind: 'disable'; mountPoint: string };

/** The patch of a resume, by mode. */
export type MountPatch =
  | { kind: 'none' }
  | { kind: 'remove_all' }
  | { kind: 'disable_all' }
  | { kind: 'mounts'; changes: MountChange[] };

/** The mounts after the change, and, by slot, the credentials of the mounts that are made anew. */
export interface MountPlan {
  slots: MountSlot[];
  credentials: Record<number, MountCredentials>;
}

export const maxMounts = 16;

/** Directories of the runtime and the kernel; no mount may cover them. */
const takenPaths = ['/proc', '/sys', '/dev', '/.platform', '/run/platform'];

/**
 * Normalizes a mount point.
 * @returns `reason` when the path is not allowed
 */
export function checkMountPoint(mountPoint: string): { path: string } | { reason: string } {
  if (!mountPoint.startsWith('/')) return { reason: 'must be an absolute path' };
  if (/[\p{Cc}\s\\]/u.test(mountPoint)) return { reason: 'must not contain spaces, control characters or backslashes' };
  const parts = mountPoint.split('/').filter((part) => part !== '');
  if (parts.includes('..') || parts.includes('.')) return { reason: 'must not contain . or .. as a part' };
  const path = `/${parts.join('/')}`;
  if (path === '/') return { reason: 'must not be the root' };
  const taken = takenPaths.find((each) => isWithin(path, each) || isWithin(each, path));
  if (taken) return { reason: `must not contain or lie in ${taken}` };
  return { path };
}

/** @throws {AppError} `validation_failed` when two mount points are the same, or one lies in another */
export function requireApart(mountPoints: readonly string[], formatPath: (index: number) => string): void {
  for (const [index, mountPoint] of mountPoints.entries()) {
    const before = mountPoints.slice(0, index);
    const other = before.find((each) => isWithin(each, mountPoint) || isWithin(mountPoint, each));
    if (other === undefined) continue;
    const reason = other === mountPoint ? 'must not be there twice' : `must not lie in or contain ${other}`;
    throw refusal([{ path: formatPath(index), reason }]);
  }
}

/** The slots of a new sandbox, in the order of the request. */
export function planMounts(wanted: readonly WantedMount[]): MountPlan {
  requireApart(
    wanted.map((mount) => mount.mountPoint),
    (index) => `object_storage.${index}.mount_point`,
  );
  return applyChanges(
    [],
    wanted.map((mount) => ({ kind: 'upsert', ...mount })),
  );
}

/**
 * The slots after a resume.
 * @throws {AppError} `validation_failed` for a change of an unknown mount, or for too many mounts
 */
export function patchMounts(slots: readonly MountSlot[], patch: MountPatch): MountPlan {
  const active = (slot: MountSlot) => slot.state === 'active';
  switch (patch.kind) {
    case 'none':
      return { slots: [...slots], credentials: {} };
    case 'remove_all':
      return { slots: slots.map((slot) => (active(slot) ? freed(slot.slot) : slot)), credentials: {} };
    case 'disable_all':
      return { slots: slots.map((slot) => (active(slot) ? disabled(slot) : slot)), credentials: {} };
    case 'mounts':
      return applyChanges(slots, patch.changes);
  }
}

/**
 * Temporary credentials may expire during a pause, so a resume brings new ones or disables the mount.
 * @throws {AppError} `object_storage_credentials_required`
 */
export function requireFresh({ slots, credentials }: MountPlan, bestEffort: boolean): void {
  const stale = slots.filter(
    ({ slot, state, shortLived }) => state === 'active' && shortLived && !(slot in credentials),
  );
  if (stale.length === 0 || bestEffort) return;
  const where = stale.map((slot) => slot.mountPoint).join(', ');
  throw new AppError(
    'object_storage_credentials_required',
    `Resume it with new credentials for the mounts at ${where}, or with best_effort_oss`,
  );
}

/**
 * A restart ends the mounts together with the processes, so each mount needs its credentials again.
 * @throws {AppError} `object_storage_credentials_required`
 */
export function requireAllCredentials({ slots, credentials }: MountPlan, bestEffort: boolean): void {
  const without = slots.filter(({ slot, state }) => state === 'active' && !(slot in credentials));
  if (without.length === 0 || bestEffort) return;
  const where = without.map((slot) => slot.mountPoint).join(', ');
  throw new AppError(
    'object_storage_credentials_required',
    `Restart it with credentials for the mounts at ${where}, or with best_effort_oss`,
  );
}

export function disabled(slot: MountSlot): MountSlot {
  return { ...slot, state: 'disabled' };
}

/** Whether s3fs would get the same arguments for both mounts. */
export function isSameMount(a: MountSlot, b: MountSlot): boolean {
  return (
    a.uri === b.uri &&
    a.mountPoint === b.mountPoint &&
    a.region === b.region &&
    a.endpoint === b.endpoint &&
    a.shortLived === b.shortLived
  );
}

function applyChanges(before: readonly MountSlot[], changes: readonly MountChange[]): MountPlan {
  const plan: MountPlan = { slots: before.map((slot) => ({ ...slot })), credentials: {} };
  for (const [index, change] of changes.entries()) {
    const at = plan.slots.findIndex((slot) => slot.state !== 'free' && slot.mountPoint === change.mountPoint);
    if (change.kind === 'upsert') upsert(plan, change, at);
    else if (at < 0) {
      throw refusal([{ path: `object_storage.mounts.${index}.mount_point`, reason: 'must be the path of a mount' }]);
    } else plan.slots[at] = change.kind === 'delete' ? freed(plan.slots[at]!.slot) : disabled(plan.slots[at]!);
  }
  const kept = plan.slots.filter((slot) => slot.state !== 'free');
  requireApart(
    kept.map((slot) => slot.mountPoint),
    () => 'object_storage',
  );
  if (kept.length > maxMounts) {
    throw refusal([{ path: 'object_storage', reason: `must have at most ${maxMounts} mounts` }]);
  }
  return plan;
}

function upsert(plan: MountPlan, wanted: WantedMount, at: number): void {
  const firstFree = plan.slots.findIndex((slot) => slot.state === 'free');
  const index = at >= 0 ? at : firstFree >= 0 ? firstFree : plan.slots.length;
  plan.slots[index] = {
    slot: index,
    state: 'active',
    uri: wanted.uri,
    mountPoint: wanted.mountPoint,
    region: wanted.region,
    endpoint: wanted.endpoint,
    shortLived: wanted.credentials.sessionToken !== null,
  };
  plan.credentials[index] = wanted.credentials;
}

function freed(slot: number): MountSlot {
  return { slot, state: 'free', uri: '', mountPoint: '', region: null, endpoint: null, shortLived: false };
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function refusal(details: ErrorDetail[]): AppError {
  return new AppError('validation_failed', details.map(({ path, reason }) => `${path} ${reason}`).join('; '), {
    details,
  });
}

/** The mounts after a resume. */
export interface StorageChange {
  /** A `MountPatch`, encrypted for the host. No process on the way can read its credentials. */
  sealedPatch: string;
  bestEffort: boolean;
}
