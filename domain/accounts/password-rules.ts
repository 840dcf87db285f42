import { AppError } from '../errors.ts';
import { isCommonPassword } from './common-passwords.ts';

export const minPasswordLength = 8;
/** Checked first, because the other checks take longer for longer texts. */
export const maxPasswordBytes = 1024;

/** A common word followed by at most this many characters is still easy to guess. */
const shortTail = /[^a-z]{1,3}$/;

/** Whether the text has the length of a password. Other texts are not compared with a hash. */
export function isPasswordLength(text: string): boolean {
  return text.length <= maxPasswordBytes && new TextEncoder().encode(text).length <= maxPasswordBytes;
}

/**
 * Checks a new password against the rules.
 * @param field the field of the request
 * @param names the user's e-mail address and user name, which the password may not contain
 * @throws {AppError} `weak_password`
 */
export function checkNewPassword(password: string, field: string, names: readonly string[]): void {
  const reason = whyWeak(password, names);
  if (reason === null) return;
  throw new AppError('weak_password', `The password ${reason}`, { details: [{ path: field, reason }] });
}

function whyWeak(password: string, names: readonly string[]): string | null {
  if (!isPasswordLength(password)) return `must have at most ${maxPasswordBytes} bytes`;
  const characters = [...password];
  if (characters.length < minPasswordLength) return `must have at least ${minPasswordLength} characters`;
  if (new Set(characters).size < 3) return 'must have more than two different characters';
  const lowerCase = password.toLowerCase();
  const forms = [lowerCase, lowerCase.replace(shortTail, '')];
  if (forms.some(isCommonPassword))
    return 'is one of the most common passwords, or one of them with a few more characters';
  const ofUser = names.flatMap((name) => [name, name.split('@')[0]!]).map((name) => name.toLowerCase());
  return forms.some((form) => ofUser.includes(form)) ? 'must not be your name or e-mail address' : null;
}
