import { z } from 'zod';
import { maxPasswordBytes, minPasswordLength } from '../../domain/password-rules.ts';

/** A new password. Its rules are the domain's, which refuses one as `weak_password`; here only its bounds are shown. */
export const newPassword = () =>
  z
    .string()
    .describe(`At most ${maxPasswordBytes} bytes; none of the most common ones`)
    .meta({ minLength: minPasswordLength, maxLength: maxPasswordBytes });

/** A password that is compared, not set. One that is too long is wrong, like any other. */
export const givenPassword = () => z.string().max(16_384);
