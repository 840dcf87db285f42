import type { Scope } from '../../db/core/scope.ts';
import { AppError } from '../../domain/errors.ts';
import type { UserId } from '../../domain/ids.ts';

/**
 * Checks a filter by owner. Account root users may use it for any user, and other users only for themselves.
 * @throws {AppError} `root_required`
 */
export function ownerFilter(scope: Scope, userId: UserId | undefined): UserId | undefined {
  if (userId !== undefined && scope.rows === 'user' && userId !== scope.userId) {
    throw new AppError('root_required', 'Only an account root user may see objects of other users');
  }
  return userId;
}
