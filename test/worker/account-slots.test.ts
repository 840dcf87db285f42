import { expect, test } from '@jest/globals';
import type { Context } from '@temporalio/activity';
import { limitAccountSlots } from '../../worker/account-slots.ts';

const intercept = limitAccountSlots(2);

/** Runs an activity of an account until `end` is called. */
function run(fairnessKey: string | undefined, isLocal = false) {
  const { promise, resolve: end } = Promise.withResolvers<void>();
  const info = { isLocal, priority: { fairnessKey } };
  const context = { info, cancellationSignal: new AbortController().signal } as unknown as Context;
  let isRunning = false;
  const done = intercept(context).inbound!.execute!({ args: [], headers: {} }, async () => {
    isRunning = true;
    await promise;
  });
  return { end, done, isRunning: () => isRunning };
}

test('an account has its share of slots, which delays no other account, no local activity and not the platform', async () => {
  const running = [run('acc-a'), run('acc-a')];
  const third = run('acc-a');
  const others = [run('acc-b'), run(undefined), run('acc-a', true)];
  await new Promise(setImmediate);
  expect([...running, third, ...others].map((each) => each.isRunning())).toEqual([true, true, false, true, true, true]);
  running[0]!.end();
  await running[0]!.done;
  third.end();
  await third.done;
  expect(third.isRunning()).toBe(true);
  for (const each of [...running, ...others]) each.end();
  await Promise.all([...running, ...others].map(({ done }) => done));
});
