import { dictionary } from '@zxcvbn-ts/language-common';

let passwords: Set<string> | null = null;

/**
 * Whether a password is one of the 49,000 that leaked most often: the list of the package `@zxcvbn-ts/language-common`,
 * compiled from published leaks. Its entries are lower-case.
 */
export function isCommonPassword(lowerCase: string): boolean {
  passwords ??= new Set(dictionary['passwords-common'] as string[]);
  return passwords.has(lowerCase);
}
