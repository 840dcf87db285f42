/** Whether a file system had no blocks, no inodes or no quota left. */
export function isOutOfSpace(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException | null)?.code ?? '');
}
