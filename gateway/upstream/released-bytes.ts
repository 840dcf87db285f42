import { channel } from 'node:diagnostics_channel';

/** Gets each buffer whose bytes may be reused, so that a subscriber can detect a late use of them. */
export const releasedBytes = channel('sandbox-platform.gateway.released-bytes');

/** Call this when the buffer of these bytes may be reused. */
export function release(bytes: Buffer): void {
  if (releasedBytes.hasSubscribers) releasedBytes.publish(bytes);
}
