import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { nameOfBytes } from './path.ts';

/** Chosen on first use and not when the agent's startup snapshot is made, so that no two agents share it. */
let prefix: string | undefined;
/** How long a replaced path is remembered, which is longer than the kernel's event about it can be delayed. */
const rememberedMs = 1000;

let created = 0;
const replaced = new Map<string, NodeJS.Timeout>();

/** A name for a file with incomplete content. */
export function newStagedName(): string {
  prefix ??= `.upload-${randomUUID()}-`;
  created += 1;
  return `${prefix}${created.toString(36)}`;
}

/** Whether the last part of a path is a staged name. */
export function isStagedName(relativePath: string): boolean {
  return prefix !== undefined && path.basename(relativePath).startsWith(prefix);
}

/** Remembers that an upload is about to replace a file. Watchers then report a write. */
export function rememberReplaced(target: Buffer): void {
  const name = nameOfBytes(target);
  clearTimeout(replaced.get(name));
  const timer = setTimeout(() => replaced.delete(name), rememberedMs);
  timer.unref();
  replaced.set(name, timer);
}

/** Whether an upload has just replaced the file at this real path. */
export function wasReplaced(absolutePath: string): boolean {
  return replaced.has(absolutePath);
}
