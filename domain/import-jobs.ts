export const importStatuses = ['pending', 'running', 'completed', 'failed', 'cancelled'] as const;
export type ImportStatus = (typeof importStatuses)[number];

/** Statuses in which an import is under way. A template has at most one such. */
export const activeImportStatuses: readonly ImportStatus[] = ['pending', 'running'];

/** Attempts beyond the first. Their spacing is that of the activity profile `imageCopy`: 10 s, 60 s, 300 s. */
export const maxImportRetries = 3;
