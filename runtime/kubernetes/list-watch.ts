import { setTimeout as sleep } from 'node:timers/promises';
import { type KubeConfig, type KubernetesObject, type ListPromise, ListWatch, Watch } from '@kubernetes/client-node';

/** How long a watch that ended waits before it begins again. */
export const againAfterMs = 500;
/** Less than the 30 s of silence after which the client takes a connection for dead. */
const watchSeconds = 25;

/**
 * A watch that the API server ends in time, and before that tells it the version it has seen up to: without that, a watch
 * of objects that rarely change begins again from a version that is forgotten by then, which takes a new list.
 */
class WatchWithBookmarks extends Watch {
  override watch(...[path, query, ...listeners]: Parameters<Watch['watch']>): Promise<AbortController> {
    return super.watch(path, { ...query, allowWatchBookmarks: true, timeoutSeconds: watchSeconds }, ...listeners);
  }
}

/**
 * Objects of a cluster in memory: one list, then a watch, which hears of a change at once also when nothing has changed for
 * long. It does not begin by itself.
 * @param of.path of the objects in the API, such as `/api/v1/namespaces/default/pods`
 * @param of.isClosed whether its owner has ended it
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
  // After watches that saw nothing the client would wait for up to half a minute, and begin another after its end.
  const delayFn = async (ms: number) => {
    await sleep(Math.min(ms, againAfterMs));
    if (isClosed()) await new Promise(() => {});
  };
  return new ListWatch(path, new WatchWithBookmarks(config), list, false, labelSelector, fieldSelector, { delayFn });
}
