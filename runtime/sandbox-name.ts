import type { SandboxId } from '../domain/ids.ts';

const sandboxName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

/** Whether a text can be a sandbox's id. Drivers use ids in paths of files and of an API, so an id is never `..`. */
export const isSandboxName = (text: string): text is SandboxId => sandboxName.test(text);

/** @throws {TypeError} for a text that cannot be a sandbox's id */
export function requireSandboxName(text: string): void {
  if (!isSandboxName(text)) throw new TypeError(`${text} names no sandbox`);
}
