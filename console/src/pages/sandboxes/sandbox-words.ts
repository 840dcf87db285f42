import type { DataOf } from '../../api/client.ts';
import { formatCount } from '../../format/numbers.ts';

export type Sandbox = DataOf<'getSandbox'>;
export type SandboxStatus = Sandbox['status'];
type Reason = NonNullable<Sandbox['reason']>;

/** Statuses in the order in which a person looks for them. */
export const statuses: readonly SandboxStatus[] = [
  ...(['running', 'paused', 'failed', 'created', 'starting'] as const),
  ...(['pausing', 'resuming', 'terminating', 'terminated'] as const),
];

/** It becomes another status by itself soon. */
export const isChanging = (status: SandboxStatus) =>
  ['created', 'starting', 'pausing', 'resuming', 'terminating'].includes(status);

/** It has ended, and its disk is removed. */
export const isOver = (status: SandboxStatus) => status === 'terminated' || status === 'failed';

const statusTexts: Readonly<Record<SandboxStatus, string>> = {
  created: 'It waits for its start.',
  starting: 'It starts.',
  running: 'Its processes run.',
  pausing: 'Its processes are being frozen.',
  paused: 'No process runs; its disk is kept.',
  resuming: 'Its processes are being continued or started again.',
  terminating: 'Its processes end, and its disk is removed.',
  terminated: 'It has ended, and its disk is removed.',
  failed: 'It has ended because of a failure, and its disk is removed.',
};

const substatusTexts: Readonly<Record<NonNullable<Sandbox['substatus']>, string>> = {
  allocating: 'It gets its place on a host.',
  deploying: 'Its host fetches the image, and makes the disk and the container.',
  initializing: 'The container runs; the agent in it starts.',
  waiting_ready: 'It runs; the check of its template does not say yet that it is ready.',
  cleaning_resources: 'Its processes end.',
  cleaning_data: 'Its disk is removed.',
};

/** What the sandbox does now, in a sentence. */
export const describeStatus = ({ status, substatus }: Pick<Sandbox, 'status' | 'substatus'>) =>
  substatus ? substatusTexts[substatus] : statusTexts[status];

const reasonTexts: Readonly<Record<Reason, string>> = {
  user_requested: 'Somebody asked for it.',
  timeout: 'Its timeout ran out.',
  auto_pause: 'Its timeout ran out, and it is set to pause then.',
  persistence_expired: 'It was paused for longer than the plan keeps it.',
  image_pull_failed: 'Its image could not be fetched or made.',
  image_refused: 'Its image is damaged, too large, or has something that is not allowed.',
  not_ready: 'The check of its template failed too often, so it never was ready.',
  start_failed: 'It could not be started.',
  no_capacity: 'No host had room for it.',
  host_lost: 'Its host was lost.',
  host_restarted: 'Its host restarted. Its processes are lost, its disk is kept.',
  host_disk_full: 'The disk of its host was full, and no other host had room.',
  disk_lost: 'Its disk is missing on its host.',
  host_disk_pressure: 'The disk of its host was nearly full. You can resume it when there is room.',
  host_draining: 'Its host is being emptied by an operator. You can resume it after that.',
  runtime_exited: 'Its processes ended by themselves, for example because memory ran out.',
  pause_failed: 'A pause failed, so it runs on.',
  resume_failed: 'A resume failed, so it is still paused.',
  restarted: 'It was restarted.',
  restart_failed: 'A restart ended its processes and could not start new ones. Its disk is kept.',
  budget_restricted: 'The budget of the account is used up. You can resume it when the budget allows it.',
  quota_used_up: 'A quota of this month is used up. You can resume it when the quota allows it.',
  object_storage_mount_failed: 'A bucket could not be mounted.',
  object_storage_credentials_required: 'The keys of its buckets were missing.',
  ended_by_operator: 'An operator of the platform ended it.',
};

/** Why it has its status, in a sentence. Null: for no particular reason. */
export const describeReason = (reason: Sandbox['reason']) => (reason ? reasonTexts[reason] : null);

/** What became of a sandbox that has ended. */
export const outcomes: Readonly<Record<NonNullable<Sandbox['lifecycle_outcome']>, string>> = {
  completed: 'Terminated',
  timed_out: 'Ended by its timeout',
  failed: 'Failed',
  expired: 'Paused for too long',
  deleted: 'Deleted',
};

/** A shell reports an end by a signal as 128 and the signal's number. */
export const exitCodeText = (code: number) =>
  code > 128 && code < 193 ? `${formatCount(code)} (ended by signal ${code - 128})` : formatCount(code);
