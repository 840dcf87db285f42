import { z } from 'zod';
import type { UserChange } from '../../db/accounts/user-management.ts';
import { checkDisplayName, maxDisplayName } from '../../domain/names.ts';
import { description, nameOf, optional, optionalBody, optionalNonZero } from './fields.ts';

/** The body that changes a user. */
export const userChangeBody = optionalBody(
  z.object({
    display_name: optionalNonZero(nameOf(maxDisplayName)),
    description: optional(description()),
    role: optionalNonZero(z.enum(['user', 'admin'])).describe(
      'Only for account root users; only an admin can grant or revoke `admin`',
    ),
    status: optionalNonZero(z.enum(['enabled', 'disabled'])).describe('Account root only'),
    is_root_user: optional(z.boolean()).describe('Account root only; an account keeps an enabled root user'),
  }),
);

/** @throws {AppError} `invalid_name` */
export function userChangeOf(body: z.output<typeof userChangeBody>): UserChange {
  const { display_name: name, description, role, status, is_root_user: isRootUser } = body;
  return {
    displayName: name === undefined ? undefined : checkDisplayName(name.trim()),
    description,
    role,
    status,
    isRootUser,
  };
}
