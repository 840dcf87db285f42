import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { resolvePath } from '../filesystem/path.ts';
import type { ViewOf } from '../filesystem/view.ts';
import type { Filesystem, WatchDirResponseSchema } from '../proto/gen/sandboxagent_pb.js';
import { ConnectError } from '../rpc/connect-error.ts';
import { keepaliveMs } from '../rpc/keepalive.ts';
import type { AgentCall, Handlers } from '../rpc/service.ts';
import { Wakeup } from '../rpc/wakeup.ts';
import { DirectoryWatcher } from './directory-watcher.ts';
import { type EventWithEntry, withEntries } from './event-entries.ts';

/** The maximum number of polled watchers. */
const maxWatchers = 256;

interface OpenWatcher {
  watcher: DirectoryWatcher;
  take(): EventWithEntry[] | Promise<EventWithEntry[]>;
}

type WatchHandlers = 'createWatcher' | 'getWatcherEvents' | 'removeWatcher' | 'watchDir';

/** The watch procedures of the file services: streamed and polled. */
export function watchHandlers(viewOf: ViewOf): Pick<Handlers<typeof Filesystem>, WatchHandlers> {
  const watchers = new Map<string, OpenWatcher>();
  const find = (watcherId: string) => {
    const found = watchers.get(watcherId);
    if (!found) throw new ConnectError('watcher not found', Code.NotFound);
    return found;
  };
  const open = async (
    { path, recursive, includeEntry }: { path: string; recursive: boolean; includeEntry?: boolean },
    call: AgentCall,
    onChange: () => void,
  ): Promise<OpenWatcher> => {
    const view = viewOf(call);
    const root = resolvePath(path, view.home);
    const watcher = await DirectoryWatcher.open(root, recursive, onChange);
    const take = () => {
      const changes = watcher.take();
      return includeEntry ? withEntries(changes, root, view) : changes;
    };
    return { watcher, take };
  };
  return {
    async createWatcher(request, call) {
      if (watchers.size >= maxWatchers) throw new ConnectError('too many watchers', Code.ResourceExhausted);
      const opened = await open(request, call, () => {});
      const watcherId = crypto.randomUUID();
      watchers.set(watcherId, opened);
      return { watcherId };
    },

    getWatcherEvents: async ({ watcherId }) => ({ events: await find(watcherId).take() }),

    removeWatcher({ watcherId }) {
      find(watcherId).watcher.close();
      watchers.delete(watcherId);
      return {};
    },

    async *watchDir(request, call): AsyncGenerator<MessageInitShape<typeof WatchDirResponseSchema>> {
      const interval = keepaliveMs(call);
      const something = new Wakeup();
      const { watcher, take } = await open(request, call, () => something.wake());
      const leave = () => watcher.close();
      call.signal.addEventListener('abort', leave);
      if (call.signal.aborted) leave();
      try {
        yield { event: { case: 'start', value: {} } };
        while (true) {
          const changes = await take();
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
