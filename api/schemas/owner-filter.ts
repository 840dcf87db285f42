import type { Scope } from '../../db/repositories/scope.ts';
import { AppError } from '../../domain/errors.ts';
import type { UserId } from '../../domain/ids.ts';

/**
 * A filter by owner is for account root users; anyone may name themselves.
 * @throws {AppError} `root_required`
 */
export function ownerFilter(scope: Scope, userId: UserId | undefined): UserId | undefined {
  if (userId !== undefined && scope.rows === 'user' && userId !== scope.userId) {
    throw new AppError('root_required', 'Only an account root user may look at what others own');
  }
  return userId;
}
