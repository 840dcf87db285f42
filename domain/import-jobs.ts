export const importStatuses = ['pending', 'running', 'completed', 'failed', 'cancelled'] as const;
export type ImportStatus = (typeof importStatuses)[number];

/** Statuses in which an import is under way. A template has at most one such. */
export const activeImportStatuses: readonly ImportStatus[] = ['pending', 'running'];
