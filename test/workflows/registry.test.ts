import { expect, test } from '@jest/globals';
import { msToNumber } from '@temporalio/common/lib/time.js';
import { type WorkflowInput, type WorkflowType, workflowKinds } from '../../domain/workflow-registry.ts';
import { startOptions } from '../../temporal/workflow-starts.ts';
import * as profiles from '../../workflows/activity-profiles.ts';
import * as workflows from '../../workflows/index.ts';

/** Does not compile if the input type of a workflow differs from the registry. */
const typed: { [Type in WorkflowType]: (input: WorkflowInput<Type>) => Promise<unknown> } = workflows;

test('the registry has exactly the workflows of the worker', () => {
  expect(Object.keys(typed).sort()).toEqual(Object.keys(workflowKinds).sort());
});

test('each id belongs to one workflow type, so ids of two types never collide', () => {
  const ids = Object.values(workflowKinds).map(({ workflowId }) => workflowId('sbx-a'));
  // Ids of objects have a prefix for each kind, so a user's `…/deletion` is never a sandbox's.
  expect(ids).toEqual([
    'sbx-a',
    'sbx-a/deletion',
    'sbx-a',
    'sbx-a',
    'sbx-a/password-reset',
    'sbx-a/invitation',
    'sbx-a/deletion',
    'sbx-a/email-change',
    'sbx-a/billing',
    'sbx-a/plan-change',
    'sbx-a/mail',
    'sbx-a',
    'sbx-a/build',
    'sbx-a/removal',
    'sbx-a',
    'sbx-a/budget',
    'sbx-a',
    'image-collection',
    'reconciliation',
    'maintenance',
  ]);
});

test('a workflow starts under its own id with its search attributes', () => {
  expect(startOptions('host', 'host-a', { hostId: 'host-a' })).toMatchObject({
    workflowId: 'host-a',
    args: [{ hostId: 'host-a' }],
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
    typedSearchAttributes: [expect.objectContaining({ value: 'host-a' })],
  });
  expect(startOptions('maintenance', '', undefined).args).toEqual([]);
});

test('each attempt of an activity has a time limit in every profile, and long ones have a heartbeat', () => {
  const { database, upkeep, watch, onHost, outside } = profiles;
  const ofHosts = Object.values(onHost).map((profile) => profile('host-a'));
  for (const profile of [database, upkeep, watch, ...ofHosts, ...Object.values(outside)]) {
    expect(msToNumber(profile.startToCloseTimeout!)).toBeGreaterThan(0);
    expect(profile.retry).toBeDefined();
  }
  for (const profile of [
    watch,
    outside.imageCopy,
    outside.webhook,
    outside.money,
    onHost.starting('host-a'),
    onHost.building('host-a'),
  ])
    expect(profile.heartbeatTimeout).toBeDefined();
  expect(new Set(ofHosts.map(({ taskQueue }) => taskQueue))).toEqual(new Set(['host/host-a', 'host/host-a/ending']));
});
