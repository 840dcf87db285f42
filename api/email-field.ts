import { readEmailAddress } from '../domain/email-address.ts';
import { AppError } from '../domain/errors.ts';

/** Reads an e-mail address of a request's body. @throws {AppError} `validation_failed` */
export function readEmailField(field: string, text: string): string {
  const email = readEmailAddress(text);
  if (email !== null) return email;
  const reason = 'must be an e-mail address with ASCII characters before the @';
  throw new AppError('validation_failed', `${field} ${reason}`, { details: [{ path: field, reason }] });
}
