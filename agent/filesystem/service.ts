import fs from 'node:fs/promises';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import { Filesystem } from '../proto/gen/sandboxagent_pb.js';
import { ConnectError } from '../rpc/connect-error.ts';
import { toConnectError } from '../rpc/errors.ts';
import { type AgentService, agentService } from '../rpc/service.ts';
import { eventFrames } from '../watch/event-frames.ts';
import { watchHandlers } from '../watch/service.ts';
import { type Entry, entryAt, entryJson, entryMessage } from './entry.ts';
import { walk } from './listing.ts';
import { makeFolders } from './make-folders.ts';
import { move } from './move.ts';
import { resolvePath, systemPath } from './path.ts';
import { remove } from './remove.ts';

/** `sandboxagent.Filesystem`. */
export function filesystemServices(environment: AgentEnvironment): AgentService[] {
  const resolve = (given: string, field?: string) => resolvePath(given, environment.home(), field);
  return [
    agentService(
      Filesystem,
      {
        stat: async ({ path }) => ({ entry: entryMessage(await readEntry(resolve(path))) }),

        async makeDir({ path: given }) {
          const absolute = resolve(given);
          try {
            await makeFolders(path.dirname(absolute));
            await fs.mkdir(systemPath(absolute));
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw toConnectError(error, absolute);
            const existing = (await readEntry(absolute)).isDirectory ? 'directory already exists' : 'already exists';
            throw new ConnectError(`${absolute}: ${existing}`, Code.AlreadyExists);
          }
          return { entry: entryMessage(await readEntry(absolute)) };
        },

        async move({ source, destination }) {
          const from = resolve(source, 'source');
          const to = resolve(destination, 'destination');
          try {
            await move(from, to);
          } catch (error) {
            throw toConnectError(error, from);
          }
          return { entry: entryMessage(await readEntry(to)) };
        },

        async listDir({ path, depth }) {
          const entries = [];
          for await (const slice of walk(resolve(path), depth || 1)) entries.push(...slice.map(entryMessage));
          return { entries };
        },

        async remove({ path: given }) {
          const absolute = resolve(given);
          if (absolute === '/') throw new ConnectError('refusing to remove /', Code.InvalidArgument);
          try {
            await remove(absolute);
          } catch (error) {
            throw toConnectError(error, absolute);
          }
          return {};
        },

        ...watchHandlers(resolve),
      },
      {
        withoutToken: ['getWatcherEvents', 'removeWatcher'],
        fast: {
          watchDir: { frames: eventFrames },
          stat: {
            json({ path }) {
              const entry = readEntry(resolve(path));
              const text = (entry: Entry) => `{"entry":${entryJson(entry)}}`;
              return entry instanceof Promise ? entry.then(text) : text(entry);
            },
          },
          listDir: {
            parts: {
              async *json({ path, depth }) {
                let text = '{"entries":[';
                let separator = '';
                for await (const entries of walk(resolve(path), depth || 1)) {
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
              async *messages({ path, depth }) {
                for await (const entries of walk(resolve(path), depth || 1)) {
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

/** The entry. Its errors contain the path. */
function readEntry(absolute: string): Entry | Promise<Entry> {
  try {
    const entry = entryAt(absolute);
    return entry instanceof Promise ? entry.catch((error) => Promise.reject(toConnectError(error, absolute))) : entry;
  } catch (error) {
    throw toConnectError(error, absolute);
  }
}
