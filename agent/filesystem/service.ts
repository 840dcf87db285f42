import fs from 'node:fs/promises';
import path from 'node:path';
import { Code, ConnectError } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import { Filesystem } from '../proto/gen/sandboxagent_pb.js';
import { toConnectError } from '../rpc/errors.ts';
import { type AgentService, agentService } from '../rpc/service.ts';
import { watchHandlers } from '../watch/service.ts';
import { entryAt, entryJson, entryMessage } from './entry.ts';
import { walk } from './listing.ts';
import { move } from './move.ts';
import { resolvePath, systemPath } from './path.ts';

/** `sandboxagent.Filesystem` (section 4.12). */
export function filesystemServices(environment: AgentEnvironment): AgentService[] {
  const resolve = (given: string, field?: string) => resolvePath(given, environment.home(), field);
  return [
    agentService(
      Filesystem,
      {
        stat: ({ path }) => ({ entry: entryMessage(about(resolve(path), entryAt)) }),

        async makeDir({ path: given }) {
          const absolute = resolve(given);
          try {
            await fs.mkdir(systemPath(path.dirname(absolute)), { recursive: true });
            await fs.mkdir(systemPath(absolute));
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw toConnectError(error, absolute);
            const existing = about(absolute, entryAt).isDirectory ? 'directory already exists' : 'already exists';
            throw new ConnectError(`${absolute}: ${existing}`, Code.AlreadyExists);
          }
          return { entry: entryMessage(about(absolute, entryAt)) };
        },

        async move({ source, destination }) {
          const from = resolve(source, 'source');
          const to = resolve(destination, 'destination');
          try {
            await move(from, to);
          } catch (error) {
            throw toConnectError(error, from);
          }
          return { entry: entryMessage(about(to, entryAt)) };
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
            await fs.rm(systemPath(absolute), { recursive: true, force: true, maxRetries: 3, retryDelay: 20 });
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
          stat: { json: ({ path }) => `{"entry":${entryJson(about(resolve(path), entryAt))}}` },
          listDir: {
            parts: {
              async *json({ path, depth }) {
                let text = '{"entries":[';
                let separator = '';
                for await (const entries of walk(resolve(path), depth || 1)) {
                  // Said one slice late, so that a listing of one slice is one piece.
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

/** `look(absolute)`, its errors told with the path. */
function about<T>(absolute: string, look: (absolute: string) => T): T {
  try {
    return look(absolute);
  } catch (error) {
    throw toConnectError(error, absolute);
  }
}
