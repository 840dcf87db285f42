export const importStatuses = ['pending', 'running', 'completed', 'failed', 'cancelled'] as const;
export type ImportStatus = (typeof importStatuses)[number];

/** Statuses of an import that is in progress. A template has at most one such import. */
export const activeImportStatuses: readonly ImportStatus[] = ['pending', 'running'];

/** Retries after the first attempt. Their spacing is that of the activity profile `imageCopy`: 10 s, 60 s, 300 s. */
export const maxImportRetries = 3;
