import { setTimeout as sleep } from 'node:timers/promises';
import { type KubeConfig, type KubernetesObject, type ListPromise, ListWatch, Watch } from '@kubernetes/client-node';

/** The pause before a watch that ended begins again. */
export const againAfterMs = 500;
/** The length of one watch request: less than the 30 s of silence after which the client closes a connection. */
const watchSeconds = 25;

/**
 * A watch with a time limit and bookmarks: before the end, the API server sends the newest resource version. Without
 * bookmarks, a watch of objects that rarely change would continue from an expired version and need a new list.
 */
class WatchWithBookmarks extends Watch {
  override watch(...[path, query, ...listeners]: Parameters<Watch['watch']>): Promise<AbortController> {
    return super.watch(path, { ...query, allowWatchBookmarks: true, timeoutSeconds: watchSeconds }, ...listeners);
  }
}

/**
 * Keeps objects of a cluster in memory: it lists them once and then watches for changes. Changes arrive at once, even
 * after a long time without any. The caller starts it.
 * @param of.path the path of the objects in the API, such as `/api/v1/namespaces/default/pods`
 * @param of.isClosed whether the caller has closed the watch
 */
export function listWatch<Type extends KubernetesObject>(of: {
  config: KubeConfig;
  path: string;
  list: ListPromise<Type>;
  labelSelector: string;
  fieldSelector?: string;
  isClosed: () => boolean;
}): ListWatch<Type> {
  const { config, path, list, labelSelector, fieldSelector, isClosed } = of;
  // After watches without a change, the client would wait for up to half a minute. It would also begin a new watch
  // after the caller has closed it, so a closed watch waits for ever here.
  const delayFn = async (ms: number) => {
    await sleep(Math.min(ms, againAfterMs));
    if (isClosed()) await new Promise(() => {});
  };
  return new ListWatch(path, new WatchWithBookmarks(config), list, false, labelSelector, fieldSelector, { delayFn });
}
