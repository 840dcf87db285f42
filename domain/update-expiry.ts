/** The header of an update with the time (Unix milliseconds) after which no caller waits for it to be accepted. */
export const updateExpiryHeader = 'platform-expires-at';

/** How long a caller waits for an update to be accepted. */
export const updateWaitMs = 25_000;
