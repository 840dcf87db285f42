import type { Payload } from '@temporalio/common';

/** Payloads within a message of Temporal, except search attributes, which cannot be encrypted. */
export function payloadsIn(message: unknown): Payload[] {
  if (message === null || typeof message !== 'object' || message instanceof Uint8Array) return [];
  const { metadata, data } = message as Payload;
  if (metadata && data instanceof Uint8Array) return [message as Payload];
  const fields = Object.entries(message).filter(([name]) => name !== 'searchAttributes');
  return fields.flatMap(([, value]) => payloadsIn(value));
}
