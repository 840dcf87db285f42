import { proxyActivities } from '@temporalio/workflow';

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({ startToCloseTimeout: '10s' });

/** The minimal delivery by a workflow: one activity. */
export const trivial = (): Promise<void> => nothing();
