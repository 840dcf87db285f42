import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startOptions } from '../../temporal/workflow-starts.ts';
import { startTimeSkippingPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { recordHistory } from '../support/recorded-histories.ts';

let skipping: Awaited<ReturnType<typeof startTimeSkippingPlane>>;
beforeAll(async () => {
  skipping = await startTimeSkippingPlane(new MemoryDriver());
}, 120_000);
afterAll(() => skipping?.stop());

test('a reset that nobody uses is over after 30 minutes, and another may begin', async () => {
  const { environment, plane } = skipping;
  const { userId } = plane.account;
  const options = startOptions('passwordReset', userId, { userId });
  const { workflowId } = options;
  const reset = () => plane.client.workflow.start('passwordReset', options);
  await reset();
  await environment.sleep('29m');
  await expect(reset()).rejects.toThrow('already started');
  await environment.sleep('61s');
  await expect(plane.client.workflow.getHandle(workflowId).result()).resolves.toBeUndefined();
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'password-reset-expired', workflowId);
  await (await reset()).terminate();
});
