import { proxyActivities } from '@temporalio/workflow';

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({ startToCloseTimeout: '10s' });

/** The least that a delivery by a workflow could be: one activity. */
export const trivial = (): Promise<void> => nothing();
