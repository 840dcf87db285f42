import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SandboxLifeActivities } from '../../../activities/sandboxes/life.ts';
import type { SandboxHostActivities } from '../../../activities/sandboxes/on-host.ts';
import { database, onHost } from '../../activity-profiles.ts';
import { oneAtATime } from './one-at-a-time.ts';

/** Writes to the row. */
export const rows = oneAtATime(proxyLocalActivities<SandboxLifeActivities>(database));

export function startingOn(hostId: string) {
  type Starting = Pick<SandboxHostActivities, 'startSandbox' | 'resumeSandbox' | 'restartSandbox'>;
  return proxyActivities<Starting>(onHost.starting(hostId));
}

export function pausingOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'pauseSandbox'>>(onHost.pausing(hostId));
}

export function cleaningOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'stopSandbox' | 'removeSandbox'>>(onHost.cleaning(hostId));
}
