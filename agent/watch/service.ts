import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type { Filesystem, WatchDirResponseSchema } from '../proto/gen/sandboxagent_pb.js';
import { ConnectError } from '../rpc/connect-error.ts';
import { keepaliveMs } from '../rpc/keepalive.ts';
import type { Handlers } from '../rpc/service.ts';
import { Wakeup } from '../rpc/wakeup.ts';
import { DirectoryWatcher } from './directory-watcher.ts';

/** The maximum number of polled watchers. */
const maxWatchers = 256;

type WatchHandlers = 'createWatcher' | 'getWatcherEvents' | 'removeWatcher' | 'watchDir';

/** The watch procedures of `sandboxagent.Filesystem`: streamed and polled. */
export function watchHandlers(resolve: (path: string) => string): Pick<Handlers<typeof Filesystem>, WatchHandlers> {
  const watchers = new Map<string, DirectoryWatcher>();
  const find = (watcherId: string) => {
    const watcher = watchers.get(watcherId);
    if (!watcher) throw new ConnectError('watcher not found', Code.NotFound);
    return watcher;
  };
  return {
    async createWatcher({ path, recursive }) {
      if (watchers.size >= maxWatchers) throw new ConnectError('too many watchers', Code.ResourceExhausted);
      const watcher = await DirectoryWatcher.open(resolve(path), recursive, () => {});
      const watcherId = crypto.randomUUID();
      watchers.set(watcherId, watcher);
      return { watcherId };
    },

    getWatcherEvents: ({ watcherId }) => ({ events: find(watcherId).take() }),

    removeWatcher({ watcherId }) {
      find(watcherId).close();
      watchers.delete(watcherId);
      return {};
    },

    async *watchDir({ path, recursive }, call): AsyncGenerator<MessageInitShape<typeof WatchDirResponseSchema>> {
      const interval = keepaliveMs(call);
      const something = new Wakeup();
      const watcher = await DirectoryWatcher.open(resolve(path), recursive, () => something.wake());
      const leave = () => watcher.close();
      call.signal.addEventListener('abort', leave);
      if (call.signal.aborted) leave();
      try {
        yield { event: { case: 'start', value: {} } };
        while (true) {
          const changes = watcher.take();
          for (const change of changes) yield { event: { case: 'filesystem', value: change } };
          if (changes.length > 0) continue;
          if (watcher.over) return;
          if (!(await something.within(interval))) yield { event: { case: 'keepalive', value: {} } };
        }
      } finally {
        call.signal.removeEventListener('abort', leave);
        watcher.close();
        something.close();
      }
    },
  };
}
