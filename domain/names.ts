import { AppError } from './errors.ts';

/** Printable and without surrounding or control characters; what people type as a name. */
const plainName = /^[\p{L}\p{N}](?:[\p{L}\p{N} ._()-]*[\p{L}\p{N}.)])?$/u;

/** Sandbox names: 0-24 characters (section 8). Empty is allowed: one is generated. */
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

function check(name: string, max: number, what: string): string {
  if (name.length === 0 || [...name].length > max) throw wrong(what, `must have 1 to ${max} characters`);
  if (!plainName.test(name)) {
    throw wrong(what, 'may have letters, digits, spaces and . _ - ( ), and must begin with a letter or digit');
  }
  return name;
}

function wrong(what: string, reason: string): AppError {
  return new AppError('invalid_name', `${what} ${reason}`, { details: [{ path: 'name', reason }] });
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

/** A name for a sandbox that got none, from 4 random bytes: at most 24 characters, such as `calm-harbor-4f21`. */
export function generateSandboxName(random: Uint8Array): string {
  const [a = 0, b = 0, c = 0, d = 0] = random;
  const tail = ((c << 8) | d).toString(16).padStart(4, '0');
  return `${adjectives[a % adjectives.length]}-${nouns[b % nouns.length]}-${tail}`;
}
