import type { ErrorDetail } from '../domain/errors.ts';

/** The maximum number of wrong fields in a reply. */
export const maxDetails = 20;
const maxPathLength = 200;
const maxReasonLength = 300;
const maxMessageLength = 2000;

/** Limits the number and the length of details, because field names come from the caller. */
export function boundedDetails(details: readonly ErrorDetail[]): ErrorDetail[] {
  return details
    .slice(0, maxDetails)
    .map(({ path, reason }) => ({ path: shortened(path, maxPathLength), reason: shortened(reason, maxReasonLength) }));
}

/** The details as one sentence. @param total the number of all details, including those that were left out */
export function detailsText(details: readonly ErrorDetail[], total = details.length): string {
  const bounded = boundedDetails(details);
  const texts = bounded.map(({ path, reason }) => (path === '' ? reason : `${path}: ${reason}`));
  if (total > bounded.length) texts.push(`and ${total - bounded.length} more`);
  return shortened(texts.join('; '), maxMessageLength);
}

/** Limits the length of a message that may repeat input of a caller or an agent. */
export function boundedMessage(message: string): string {
  return shortened(message, maxMessageLength);
}

function shortened(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).toWellFormed()}…`;
}
