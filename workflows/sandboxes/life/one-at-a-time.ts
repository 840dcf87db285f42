/** The local activity that began last. Each workflow has its own copy of this module's state. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs local activities one after the other. Two concurrent local activities may complete in either order, but a replay
 * completes them in the order in which they began. The workflow's next commands would then differ from its history, and
 * the workflow would be stuck.
 */
export function oneAtATime<Activities extends object>(activities: Activities): Activities {
  return new Proxy(activities, {
    get(target, name) {
      const activity = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
      return (...args: unknown[]) => {
        const turn = last.then(() => activity(...args));
        last = turn.catch(() => {});
        return turn;
      };
    },
  });
}
