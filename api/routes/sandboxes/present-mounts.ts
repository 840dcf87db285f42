import type { MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import type { SandboxFields } from './sandbox-schema.ts';

/** A sandbox's mounts. Null if it has none. Free slots are shown only if there are other slots. */
export function presentMounts(
  slots: readonly MountSlot[],
): Pick<SandboxFields, 'object_storage' | 'object_storage_single'> {
  const taken = slots.filter((slot) => slot.state !== 'free');
  return {
    object_storage: taken.length > 0 ? slots.map(presentMount) : null,
    object_storage_single: taken.length === 1 ? presentMount(taken[0]!) : null,
  };
}

function presentMount({ slot, state, uri, mountPoint, region, endpoint, shortLived }: MountSlot) {
  return {
    slot,
    state,
    uri,
    mount_point: mountPoint,
    ...(region !== null && { region }),
    ...(endpoint !== null && { endpoint }),
    ...(shortLived && { short_lived: true }),
  };
}
