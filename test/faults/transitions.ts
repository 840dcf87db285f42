import { randomBytes } from 'node:crypto';
import { Account } from '../../db/accounts/account.entity.ts';
import { findDefaultProjectId } from '../../db/accounts/projects.ts';
import { User } from '../../db/accounts/user.entity.ts';
import { loadPlans } from '../../db/billing/plans.ts';
import { newId } from '../../db/core/new-id.ts';
import { OutboxEntry } from '../../db/core/outbox-entry.entity.ts';
import { admitSandbox, toLifeStart } from '../../db/sandboxes/admission.ts';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { Template } from '../../db/templates/template.entity.ts';
import { anyRegion } from '../../domain/hosts/placement.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { controlTaskQueues } from '../../domain/task-queues.ts';
import type { ApiReply, PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { timeoutUpdate } from '../../workflows/sandboxes/life/messages.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';

export const transitionNames = [
  'create',
  'pause',
  'resume',
  'terminate',
  'delete',
  'timeout',
  'auto-pause',
  'expiry',
] as const;
export type TransitionName = (typeof transitionNames)[number];

export const small = { cpu_count: 1, memory_mb: 128, storage_gb: 1, allow_internet_access: false };

/** A sandbox that moves from one state to another. */
export interface Transition {
  name: TransitionName;
  /** Brings it to its initial state. For those that a clock moves, returns the time of that. */
  prepare(platform: FaultyPlatform): Promise<Moving>;
}

export interface Moving {
  /** The time at which a clock moves it, in Unix milliseconds. */
  dueMs: number | null;
  /**
   * Requests it. @param hurried return an acknowledgement before it is done, if there is one
   * @returns whether it was acknowledged
   */
  fire(api: PlatformClient, hurried: boolean): Promise<boolean>;
  /** The sandbox's status after the transition; `gone` is a 404. */
  goal: string;
  /** Its possible statuses if the request was never processed. */
  origin: string[];
  sandboxId(): Promise<SandboxId | null>;
}

const post = (path: string, body: unknown = {}) => ({ method: 'POST', path, body });

/** Requested through the API. `again` repeats an unacknowledged request once. */
function asked(options: {
  name: TransitionName;
  from: 'running' | 'paused';
  request: (sandboxId: SandboxId, hurried: boolean) => { method: string; path: string; body?: unknown };
  goal: string;
}): Transition {
  return {
    name: options.name,
    async prepare(platform) {
      const { sandbox_id: sandboxId } = await platform.api.createSandbox({ ...small, name: `faults-${options.name}` });
      if (options.from === 'paused') {
        const { method, path, body } = post(`/v1/sandboxes/${sandboxId}/pause`);
        await platform.api.request(method, path, body);
      }
      return {
        dueMs: null,
        goal: options.goal,
        origin: [options.from],
        sandboxId: async () => sandboxId,
        async fire(api, hurried) {
          const { method, path, body } = options.request(sandboxId, hurried);
          return acknowledged(() => api.request(method, path, body));
        },
      };
    },
  };
}

async function acknowledged(send: () => Promise<ApiReply<unknown>>): Promise<boolean> {
  try {
    return (await send()).status < 300;
  } catch {
    // The connection was lost with the process.
    return false;
  }
}

const create: Transition = {
  name: 'create',
  async prepare(platform) {
    const name = `faults-create-${randomBytes(4).toString('hex')}`;
    const key = { 'Idempotency-Key': name };
    const found = async () => {
      const rows = await platform.rows<{ sandbox_id: SandboxId }>('select sandbox_id from sandboxes where name = ?', [
        name,
      ]);
      if (rows.length > 1) throw new Error(`${rows.length} sandboxes were made by one create`);
      return rows[0]?.sandbox_id ?? null;
    };
    return {
      dueMs: null,
      goal: 'running',
      origin: ['absent'],
      sandboxId: found,
      fire: (api, hurried) =>
        acknowledged(() => api.request('POST', '/v1/sandboxes', { ...small, name, is_async: hurried }, key)),
    };
  },
};

/** A running sandbox whose clock expires between two and three seconds from now. */
function timed(name: 'timeout' | 'auto-pause', goal: string): Transition {
  return {
    name,
    async prepare(platform) {
      const { sandbox_id: sandboxId } = await platform.api.createSandbox({
        ...small,
        name: `faults-${name}`,
        auto_pause: name === 'auto-pause',
      });
      const [row] = await platform.rows<{ from: Date }>(
        'select timeout_from as from from sandboxes where sandbox_id = ?',
        [sandboxId],
      );
      const fromMs = new Date(row!.from).getTime();
      // The API's minimum is a minute. An operator's may be shorter.
      const timeoutSeconds = Math.ceil((Date.now() - fromMs) / 1000) + 2;
      await platform.temporal.workflow
        .getHandle(sandboxId)
        .executeUpdate(timeoutUpdate, { args: [{ timeoutSeconds, mustRaise: false }] });
      return {
        dueMs: fromMs + timeoutSeconds * 1000,
        goal,
        origin: [],
        sandboxId: async () => sandboxId,
        fire: async () => true,
      };
    },
  };
}

/** A paused sandbox whose plan keeps it for four seconds. */
const expiry: Transition = {
  name: 'expiry',
  async prepare(platform) {
    const keptSeconds = 4;
    const em = platform.orm.em.fork();
    const sandbox = await em.transactional(async (tx) => {
      const account = await tx.findOneOrFail(Account, { status: 'active' }, { orderBy: { createdAt: 'asc' } });
      const owner = await tx.findOneOrFail(User, { accountId: account.accountId, isRootUser: true });
      const template = await tx.findOneOrFail(Template, { name: 'base' });
      const { sandbox: admitted } = await admitSandbox(
        tx,
        loadPlans(),
        {
          sandboxId: newId('sandbox'),
          accountId: account.accountId,
          ownerUserId: owner.userId,
          projectId: await findDefaultProjectId(tx, owner.userId),
          name: 'faults-expiry',
          description: '',
          templateId: template.templateId,
          templateName: template.name,
          templateSource: template.templateSource,
          templatePorts: [],
          templateCustomCommand: null,
          templateReadyCommand: null,
          image: template.image!,
          cpuCount: 1,
          memoryMb: 128,
          storageGb: 1,
          timeoutSeconds: 600,
          autoPause: false,
          secure: true,
          allowInternetAccess: false,
          metadata: {},
          envVars: {},
          customPorts: [],
        },
        anyRegion,
      );
      await tx.flush();
      // The test starts its workflow, with a plan of very short days: plans in the file have whole days.
      await tx.nativeDelete(OutboxEntry, { workflowId: admitted.sandboxId });
      return admitted;
    });
    const start = toLifeStart(sandbox);
    start.plan.persistenceDays = keptSeconds / 86_400;
    await platform.temporal.workflow.start('sandbox', {
      workflowId: sandbox.sandboxId,
      taskQueue: controlTaskQueues.sandboxes,
      args: [start],
    });
    await platform.api.untilStatus(sandbox.sandboxId, 'running');
    const { method, path, body } = post(`/v1/sandboxes/${sandbox.sandboxId}/pause`);
    await platform.api.request(method, path, body);
    const row = await platform.orm.em.fork().findOneOrFail(Sandbox, { sandboxId: sandbox.sandboxId });
    return {
      dueMs: row.pausedAt!.getTime() + keptSeconds * 1000,
      goal: 'terminated',
      origin: [],
      sandboxId: async () => sandbox.sandboxId,
      fire: async () => true,
    };
  },
};

export const transitions: Record<TransitionName, Transition> = {
  create,
  pause: asked({
    name: 'pause',
    from: 'running',
    request: (id, hurried) => post(`/v1/sandboxes/${id}/pause`, { is_async: hurried }),
    goal: 'paused',
  }),
  resume: asked({
    name: 'resume',
    from: 'paused',
    request: (id, hurried) => post(`/v1/sandboxes/${id}/resume`, { is_async: hurried }),
    goal: 'running',
  }),
  terminate: asked({
    name: 'terminate',
    from: 'running',
    request: (id) => ({ method: 'POST', path: `/v1/sandboxes/${id}/terminate` }),
    goal: 'terminated',
  }),
  delete: asked({
    name: 'delete',
    from: 'running',
    request: (id) => ({ method: 'DELETE', path: `/v1/sandboxes/${id}` }),
    goal: 'gone',
  }),
  timeout: timed('timeout', 'terminated'),
  'auto-pause': timed('auto-pause', 'paused'),
  expiry,
};

/** The API's status of a sandbox now: also `gone`, or `absent` when it was never made. */
export async function readStatus(
  platform: FaultyPlatform,
  moving: Moving,
): Promise<{ status: string; view: SandboxView | null }> {
  const sandboxId = await moving.sandboxId();
  if (!sandboxId) return { status: 'absent', view: null };
  const { status, body } = await platform.api.request<SandboxView>('GET', `/v1/sandboxes/${sandboxId}`);
  if (status === 404) return { status: 'gone', view: null };
  if (status !== 200) throw new Error(`GET sandbox: ${status} ${body.code}`);
  return { status: body.data.status, view: body.data };
}

/**
 * Waits for the final state: the goal, `failed` with a reason, or, without an acknowledgement, the initial state. An
 * unacknowledged transition that was not done is requested once more, and then must be done.
 */
export async function settle(platform: FaultyPlatform, moving: Moving, wasAcknowledged: boolean): Promise<string> {
  let last = '';
  const settled = async (ends: string[]) => {
    await until(async () => {
      try {
        last = (await readStatus(platform, moving)).status;
      } catch {
        return false;
      }
      return ends.includes(last);
    }, 90_000).catch(() => {
      throw new Error(`it is ${last}, none of ${ends}`);
    });
    return last;
  };
  const status = await settled([moving.goal, 'failed', ...(wasAcknowledged ? [] : moving.origin)]);
  if (status === moving.goal) return wasAcknowledged ? 'as asked' : 'done though not acknowledged';
  if (status === 'failed') {
    const { view } = await readStatus(platform, moving);
    if (!view?.reason) throw new Error('failed without a reason');
    return `failed: ${view.reason}`;
  }
  // It may still be in progress. The request is then refused until it is done.
  const isThere = async () => (await readStatus(platform, moving)).status === moving.goal;
  await until(async () => (await isThere()) || (await moving.fire(platform.api, false)), 60_000);
  await settled([moving.goal]);
  return 'done when asked again';
}
