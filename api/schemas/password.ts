import { z } from 'zod';
import { maxPasswordBytes, minPasswordLength } from '../../domain/accounts/password-rules.ts';

/**
 * A new password. The domain checks its rules and refuses it as `weak_password`. The schema only documents its length.
 */
export const newPassword = () =>
  z
    .string()
    .describe(`At most ${maxPasswordBytes} bytes; none of the most common ones`)
    .meta({ minLength: minPasswordLength, maxLength: maxPasswordBytes });

/** A password to compare, not to set. A longer one is simply a wrong password. */
export const givenPassword = () => z.string().max(16_384);
