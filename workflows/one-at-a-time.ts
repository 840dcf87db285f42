/** The last that was begun. A workflow has this module's state for itself. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Local activities of which one begins when the one before it has ended. Two at once may end in either order, but a
 * replay always ends them in the order of their beginning; what the workflow does after each would then come in another
 * order than its history has it, and the life would be stuck.
 */
export function oneAtATime<Activities extends object>(activities: Activities): Activities {
  return new Proxy(activities, {
    get(target, name) {
      const activity = Reflect.get(target, name) as (...words: unknown[]) => Promise<unknown>;
      return (...words: unknown[]) => {
        const turn = last.then(() => activity(...words));
        last = turn.catch(() => {});
        return turn;
      };
    },
  });
}
