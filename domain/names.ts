import { AppError } from './errors.ts';

/**
 * Characters that a name may not have: controls, line and paragraph separators, unassigned code points, and characters
 * that change the direction of the surrounding text and could make one name look like another.
 */
const unprintable = /[\p{Cc}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/u;

/** Sandbox names have 0-24 characters. For an empty name the platform generates one. */
export function checkSandboxName(name: string): string {
  if (name === '') return name;
  return check(name, 24, 'Sandbox name');
}

/** Project names: 1-64 characters. */
export function checkProjectName(name: string): string {
  return check(name, 64, 'Project name');
}

/** API key names: 1-64 characters. */
export function checkApiKeyName(name: string): string {
  return check(name, 64, 'API key name');
}

/** The maximum number of characters of a port's name. */
export const maxPortName = 15;

/** A person's display name: 1-64 characters. */
export function checkDisplayName(name: string): string {
  return check(name, maxDisplayName, 'Display name', 'display_name');
}

export const maxDisplayName = 64;

/**
 * User names have 1-64 ASCII letters, digits and `._@+-`, and begin with a letter or a digit. So no letter of another
 * script can imitate them, and none of the characters ends a line of a mail.
 */
export const usernamePattern = '^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$';

export function checkUsername(name: string): string {
  if (new RegExp(usernamePattern).test(name)) return name;
  throw wrong(
    'User name',
    'must have 1 to 64 letters, digits or . _ @ + -, and begin with a letter or a digit',
    'username',
  );
}

function check(name: string, max: number, what: string, path = 'name'): string {
  const reason = whyNoName(name, max);
  if (reason !== null) throw wrong(what, reason, path);
  return name;
}

/**
 * The reason why a text is not a valid name: it is blank, too long in code points, or has unprintable characters. Null:
 * it is valid.
 */
export function whyNoName(name: string, max: number): string | null {
  // A code point has at most two UTF-16 units, so a long text is refused without reading its characters.
  if (name.length > 2 * max || name.trim() === '' || [...name].length > max) return `must have 1 to ${max} characters`;
  return unprintable.test(name) ? 'must have printable characters only' : null;
}

function wrong(what: string, reason: string, path: string): AppError {
  return new AppError('invalid_name', `${what} ${reason}`, { details: [{ path, reason }] });
}

const adjectives = [
  'amber',
  'brave',
  'calm',
  'clear',
  'eager',
  'fair',
  'gentle',
  'keen',
  'light',
  'merry',
  'noble',
  'quick',
];
const nouns = [
  'anchor',
  'birch',
  'canyon',
  'delta',
  'ember',
  'falcon',
  'grove',
  'harbor',
  'island',
  'lagoon',
  'meadow',
  'river',
];

/**
 * A generated name for a sandbox without one, from 4 random bytes: at most 24 characters, such as `calm-harbor-4f21`.
 */
export function generateSandboxName(random: Uint8Array): string {
  const [a = 0, b = 0, c = 0, d = 0] = random;
  const tail = ((c << 8) | d).toString(16).padStart(4, '0');
  return `${adjectives[a % adjectives.length]}-${nouns[b % nouns.length]}-${tail}`;
}
