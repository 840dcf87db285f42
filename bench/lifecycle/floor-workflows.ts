import { condition, defineUpdate, proxyActivities, setHandler } from '@temporalio/workflow';

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({ startToCloseTimeout: '10s' });

export const done = defineUpdate<void, []>('done');
export const again = defineUpdate<void, []>('again');

/** The minimal workflow with a reply: one activity, then the reply, and the same for each update. */
export async function floor(): Promise<void> {
  let isDone = false;
  let rounds = 0;
  setHandler(done, () => condition(() => isDone).then(() => undefined));
  setHandler(again, async () => {
    await nothing();
    rounds += 1;
  });
  await nothing();
  isDone = true;
  await condition(() => rounds >= 1, '1 minute');
}
