import fs from 'node:fs/promises';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { Filesystem } from '../proto/gen/sandboxagent_pb.js';
import { ConnectError } from '../rpc/connect-error.ts';
import { toConnectError } from '../rpc/errors.ts';
import { type AgentCall, type AgentService, agentService } from '../rpc/service.ts';
import { eventFrames } from '../watch/event-frames.ts';
import { watchHandlers } from '../watch/service.ts';
import { type Entry, entryAt, entryJson, entryMessage } from './entry.ts';
import { walk } from './listing.ts';
import { makeFolders } from './make-folders.ts';
import { move } from './move.ts';
import { resolvePath, systemPath } from './path.ts';
import { remove } from './remove.ts';
import type { FileView, ViewOf } from './view.ts';

/** `sandboxagent.Filesystem`. Another name has the same procedures, which then all need the access token. */
export function filesystemServices(viewOf: ViewOf, name?: string): AgentService[] {
  const seen = (call: AgentCall, given: string, field?: string): Seen => {
    const view = viewOf(call);
    return { view, absolute: resolvePath(given, view.home, field) };
  };
  return [
    agentService(
      Filesystem,
      {
        stat: async ({ path }, call) => ({ entry: entryMessage(await readEntry(seen(call, path))) }),

        async makeDir({ path: given }, call) {
          const place = seen(call, given);
          const { absolute, view } = place;
          try {
            await makeFolders(path.dirname(absolute), view.owner);
            await fs.mkdir(systemPath(absolute));
            if (view.owner) await fs.lchown(systemPath(absolute), view.owner.uid, view.owner.gid);
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw toConnectError(error, absolute);
            const existing = (await readEntry(place)).isDirectory ? 'directory already exists' : 'already exists';
            throw new ConnectError(`${absolute}: ${existing}`, Code.AlreadyExists);
          }
          return { entry: entryMessage(await readEntry(place)) };
        },

        async move({ source, destination }, call) {
          const { absolute: from } = seen(call, source, 'source');
          const to = seen(call, destination, 'destination');
          try {
            await move(from, to.absolute, to.view.owner);
          } catch (error) {
            throw toConnectError(error, from);
          }
          return { entry: entryMessage(await readEntry(to)) };
        },

        async listDir({ path, depth }, call) {
          const entries = [];
          for await (const slice of listing(seen(call, path), depth)) entries.push(...slice.map(entryMessage));
          return { entries };
        },

        async remove({ path: given }, call) {
          const { absolute } = seen(call, given);
          if (absolute === '/') throw new ConnectError('refusing to remove /', Code.InvalidArgument);
          try {
            await remove(absolute);
          } catch (error) {
            throw toConnectError(error, absolute);
          }
          return {};
        },

        ...watchHandlers(viewOf),
      },
      {
        name,
        withoutToken: name ? [] : ['getWatcherEvents', 'removeWatcher'],
        fast: {
          watchDir: { frames: eventFrames },
          stat: {
            json({ path }, call) {
              const entry = readEntry(seen(call, path));
              const text = (entry: Entry) => `{"entry":${entryJson(entry)}}`;
              return entry instanceof Promise ? entry.then(text) : text(entry);
            },
          },
          listDir: {
            parts: {
              async *json({ path, depth }, call) {
                let text = '{"entries":[';
                let separator = '';
                for await (const entries of listing(seen(call, path), depth)) {
                  // Each slice is sent one slice later, so that a listing with a single slice is a single piece.
                  if (separator) {
                    yield text;
                    text = '';
                  }
                  for (const entry of entries) {
                    text += separator + entryJson(entry);
                    separator = ',';
                  }
                }
                yield `${text}]}`;
              },
              async *messages({ path, depth }, call) {
                for await (const entries of listing(seen(call, path), depth)) {
                  yield { entries: entries.map(entryMessage) };
                }
              },
            },
          },
        },
      },
    ),
  ];
}

/** A path and the view of the call that named it. */
interface Seen {
  view: FileView;
  absolute: string;
}

async function* listing({ view, absolute }: Seen, depth: number): AsyncGenerator<Entry[]> {
  for await (const slice of walk(absolute, depth || 1)) {
    yield view.complete ? slice.map((entry) => view.complete!(entry)) : slice;
  }
}

/** The entry. Its errors contain the path. */
function readEntry({ view, absolute }: Seen): Entry | Promise<Entry> {
  const complete = (entry: Entry) => view.complete?.(entry) ?? entry;
  try {
    const entry = entryAt(absolute);
    return entry instanceof Promise
      ? entry.then(complete, (error) => Promise.reject(toConnectError(error, absolute)))
      : complete(entry);
  } catch (error) {
    throw toConnectError(error, absolute);
  }
}
