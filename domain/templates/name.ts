import { AppError } from '../errors.ts';

/** Bounds of a template's name. */
export const templateNameLength = { min: 4, max: 32 } as const;

/** The pattern in the OpenAPI document. It does not cover reserved words. */
export const templateNamePattern = '^[a-z][a-z0-9]*([-_][a-z0-9]+)*$';

const reserved = new Set([
  ...['admin', 'root', 'system', 'api', 'www', 'mail', 'ftp', 'ssh', 'public', 'private', 'test', 'dev', 'prod'],
  ...['staging', 'local', 'localhost', 'example', 'sample', 'k8s', 'kubernetes', 'platform', 'registry', 'runtime'],
]);

/**
 * Checks the name of a template. The name is also the name of a repository in the registry.
 * @param path the field of the request
 * @throws {AppError} `invalid_name` with the first rule that the name breaks
 */
export function checkTemplateName(name: string, path = 'name'): string {
  const reason = whyNoTemplateName(name);
  if (reason === null) return name;
  throw new AppError('invalid_name', `Template name ${reason}`, { details: [{ path, reason }] });
}

/** The first rule that a name breaks. Null: the name is valid. */
export function whyNoTemplateName(name: string): string | null {
  const { min, max } = templateNameLength;
  if (name.length < min || name.length > max) return `must have ${min} to ${max} characters`;
  if (reserved.has(name.toLowerCase())) return 'is a reserved word';
  if (!/^[a-z0-9_-]*$/.test(name)) return 'must have only a-z, 0-9, - and _';
  if (/^\d/.test(name)) return 'must not start with a digit';
  if (!/^[a-z]/.test(name) || !/[a-z0-9]$/.test(name)) return 'must start with a letter and end with a letter or digit';
  if (/[-_]{2}/.test(name)) return 'must not have two of - and _ next to each other';
  if (name.startsWith('tpl-')) return 'must not start with tpl-';
  return null;
}
