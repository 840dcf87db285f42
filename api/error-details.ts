import type { ErrorDetail } from '../domain/errors.ts';

/** The most wrong fields that a reply names. */
export const maxDetails = 20;
const maxPathLength = 200;
const maxReasonLength = 300;
const maxMessageLength = 2000;

/** Details that are safe to send: few, and each short. Field names come from the caller. */
export function boundedDetails(details: readonly ErrorDetail[]): ErrorDetail[] {
  return details
    .slice(0, maxDetails)
    .map(({ path, reason }) => ({ path: shortened(path, maxPathLength), reason: shortened(reason, maxReasonLength) }));
}

/** The details as one sentence. @param total how many there are, beyond those given */
export function detailsText(details: readonly ErrorDetail[], total = details.length): string {
  const bounded = boundedDetails(details);
  const texts = bounded.map(({ path, reason }) => (path === '' ? reason : `${path}: ${reason}`));
  if (total > bounded.length) texts.push(`and ${total - bounded.length} more`);
  return shortened(texts.join('; '), maxMessageLength);
}

/** A message that may repeat what a caller or an agent sent. */
export function boundedMessage(message: string): string {
  return shortened(message, maxMessageLength);
}

function shortened(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).toWellFormed()}…`;
}
