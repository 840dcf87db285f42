import path from 'node:path';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { entryAt, entryMessage } from '../filesystem/entry.ts';
import type { FileView } from '../filesystem/view.ts';
import { type EntryInfoSchema, EventType } from '../proto/gen/sandboxagent_pb.js';
import type { DirectoryChange } from './directory-watcher.ts';

export type EventWithEntry = DirectoryChange & { entry?: MessageInitShape<typeof EntryInfoSchema> };

/** How long reading entries may block the event loop before other requests get a turn. */
const sliceMs = 8;
/** The path of a removed or renamed entry may already belong to another one. */
const withoutEntry = new Set([EventType.REMOVE, EventType.RENAME]);

/** The changes with the entries that they are about, as far as these still exist. */
export async function withEntries(changes: DirectoryChange[], root: string, view: FileView): Promise<EventWithEntry[]> {
  const completed: EventWithEntry[] = [];
  let sliceEnd = performance.now() + sliceMs;
  for (const change of changes) {
    completed.push(await withEntry(change, root, view));
    if (performance.now() < sliceEnd) continue;
    await new Promise(setImmediate);
    sliceEnd = performance.now() + sliceMs;
  }
  return completed;
}

async function withEntry(change: DirectoryChange, root: string, view: FileView): Promise<EventWithEntry> {
  if (withoutEntry.has(change.type)) return change;
  try {
    const entry = await entryAt(path.join(root, change.name));
    return { ...change, entry: entryMessage(view.complete?.(entry) ?? entry) };
  } catch {
    // The entry is gone again.
    return change;
  }
}
