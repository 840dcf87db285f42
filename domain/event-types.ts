/**
 * Who receives events of a type: endpoints of the object's user and of the account, or only endpoints of the account.
 */
type Audience = 'user' | 'account';

export interface EventType {
  type: string;
  description: string;
  audience: Audience;
  /** An example of `data`. */
  example: Record<string, unknown>;
}

const sandboxId = 'sbx-5k2vq8m3w7xj4r6t9ypz';
const sandboxEvent = (type: string, description: string, status: string, reason: string | null): EventType => ({
  type: `sandbox.${type}`,
  description,
  audience: 'user',
  example: {
    sandbox_id: sandboxId,
    status,
    reason,
    project_id: 'prj-8d3fkq6w2mzx5v7r4t9y',
    template_id: 'tpl-6m3z8r5tpydj2c7hnv4k',
    sequence: 2,
  },
});

const templateEvent = (type: string, description: string): EventType => ({
  type: `template.${type}`,
  description,
  audience: 'user',
  example: { template_id: 'tpl-6m3z8r5tpydj2c7hnv4k', name: 'web-server', sequence: 1 },
});

const accountEvent = (type: string, description: string): EventType => ({
  type,
  description,
  audience: 'account',
  example: { account_id: 'acc-4w9xk2m7vq5z8r3t6ypj', sequence: 1 },
});

const subscriptionEvent = (type: string, description: string): EventType => ({
  type: `subscription.${type}`,
  description,
  audience: 'account',
  example: {
    account_id: 'acc-4w9xk2m7vq5z8r3t6ypj',
    subscription_id: 'sub-7r2k9d4xq8m5t3v6w1zn',
    plan_name: 'pro',
    status: type === 'past_due' ? 'past_due' : 'active',
    period_start: '2026-03-01T12:29:48.750Z',
    period_end: '2026-04-01T12:29:48.750Z',
    sequence: 2,
  },
});

const budgetEvent = (type: string, description: string, more: Record<string, unknown>): EventType => ({
  type: `budget.${type}`,
  description,
  audience: 'account',
  example: {
    ...{
      account_id: 'acc-4w9xk2m7vq5z8r3t6ypj',
      budget_id: 7,
      budget_amount: 100,
      currency: 'USD',
      limit_type: 'hard',
    },
    ...more,
    sequence: 1,
  },
});
const budgetUsage = (amount: number) => ({
  ...{ amount_used: amount, percentage_used: amount },
  ...{ period_start: '2026-03-01T00:00:00.000Z', period_end: '2026-04-01T00:00:00.000Z' },
});

/** Every type that a webhook may subscribe to. */
export const eventTypes: readonly EventType[] = [
  sandboxEvent('created', 'The sandbox was admitted and will start', 'created', null),
  sandboxEvent('started', 'Its processes run for the first time', 'running', 'user_requested'),
  sandboxEvent('stopped', 'Its processes have ended', 'terminating', 'timeout'),
  sandboxEvent('paused', 'Its processes are frozen, or ended with the disk kept', 'paused', 'user_requested'),
  sandboxEvent('resumed', 'It runs again after a pause', 'running', 'user_requested'),
  sandboxEvent('restarted', 'It runs again with new processes on the same disk', 'running', 'restarted'),
  sandboxEvent('terminated', 'It has ended, and its resources are removed', 'terminated', 'timeout'),
  sandboxEvent('failed', 'It has failed; `reason` says why', 'failed', 'runtime_exited'),
  sandboxEvent('project_switched', 'It was moved to another project', 'running', 'user_requested'),
  templateEvent('uploaded', 'The image of a template is available'),
  templateEvent('deleted', 'A template was deleted'),
  {
    type: 'exec.finished',
    description:
      'A command (exec) has ended. Sent only to webhooks with this type or `exec.*`; `*` does not include it',
    audience: 'user',
    example: {
      sandbox_id: sandboxId,
      run_id: '8m3w7xj4r6t9ypz5k2vq',
      started_at: '2026-03-01T12:29:48.750000000Z',
      exit_code: 0,
      error: null,
      duration_ms: 11_250,
      sequence: 1,
    },
  },
  accountEvent('payment.succeeded', 'A charge succeeded'),
  accountEvent('payment.failed', 'A charge failed'),
  accountEvent('payment.refunded', 'A charge was refunded'),
  accountEvent('payment.method_attached', 'A payment method was added'),
  accountEvent('payment.method_detached', 'A payment method was removed'),
  subscriptionEvent('created', 'The account has a plan'),
  subscriptionEvent('upgraded', 'The account has a larger plan'),
  subscriptionEvent('downgraded', 'The account has a smaller plan'),
  subscriptionEvent('renewed', 'A new period of the plan has begun'),
  subscriptionEvent('past_due', 'An invoice could not be charged for seven days; creates and resumes are refused'),
  subscriptionEvent('canceled', 'The paid plan has ended; a free one follows'),
  budgetEvent('threshold_crossed', 'Usage has reached a threshold of a budget', {
    ...budgetUsage(80.5),
    ...{ threshold_percent: 80, message_id: 'bgm-3f8k2m7vq5z8r3t6ypjw' },
  }),
  budgetEvent('restricted', 'A budget is used up; creates and resumes are refused', budgetUsage(100.25)),
  budgetEvent(
    'restored',
    'A budget no longer refuses requests. `because`: `budget_changed`, `new_period`, `deactivated`, `deleted` ' +
      'or `not_billed`',
    { because: 'budget_changed' },
  ),
];

/** Only `POST /v1/webhooks/{endpoint_id}/test` sends this type. */
export const testEventType = 'webhook.test';

const families = new Map<string, Audience>(
  eventTypes.map(({ type, audience }) => [`${type.slice(0, type.indexOf('.'))}.*`, audience]),
);
const audiences = new Map<string, Audience>(eventTypes.map(({ type, audience }) => [type, audience]));

/** The audience of a subscription: a type, a family such as `sandbox.*`, or `*`. Null: the subscription is unknown. */
export function findAudience(subscription: string): Audience | null {
  if (subscription === '*') return 'user';
  return audiences.get(subscription) ?? families.get(subscription) ?? null;
}
