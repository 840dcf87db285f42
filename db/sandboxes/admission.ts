import type { EntityManager } from '@mikro-orm/postgresql';
import { checkPlanLimits, type Plan, planHeldBy } from '../../domain/billing/plans.ts';
import { AppError, notFound } from '../../domain/errors.ts';
import {
  anyRegion,
  chooseHost,
  expectedUse,
  fewestShortages,
  findShortages,
  fits,
  type HostCapacity,
  maxStartWaitSeconds,
  type RegionPreference,
  type RequiredCapacity,
  type Resource,
  type TemplateUse,
} from '../../domain/hosts/placement.ts';
import type { AccountId, TemplateId, UserId } from '../../domain/ids.ts';
import type { LifeStart } from '../../domain/sandboxes/life-plan.ts';
import { listUdpPorts } from '../../domain/sandboxes/ports.ts';
import { concurrentStatuses } from '../../domain/sandboxes/state.ts';
import { accountLimit, allowsOneMoreSandbox } from '../../domain/usage/quotas.ts';
import type { Account } from '../accounts/account.entity.ts';
import { budgetRestricted } from '../billing/budget-rows.ts';
import type { PlanCatalog } from '../billing/plans.ts';
import type { SubscriptionStatus } from '../billing/subscriptions.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { Event } from '../core/event.entity.ts';
import { insertStatement } from '../core/insert-statement.ts';
import { lockRow } from '../core/lock-row.ts';
import { requestSignal, toStartEntry } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { readHostCapacities, templateUse } from '../hosts/host-capacities.ts';
import { limitsWhatIsMetered, requireMeteredQuota } from '../usage/metered-quotas.ts';
import { directMoveSeconds, toWorkNotice, workChannel } from './direct-news.ts';
import { Sandbox } from './sandbox.entity.ts';
import { type EventFields, newSandboxEvent } from './sandbox-events.ts';

/** The caller's choices for a new sandbox. The other fields follow from the plan and from placement. */
export type NewSandbox = Pick<
  Sandbox,
  | 'sandboxId'
  | 'accountId'
  | 'ownerUserId'
  | 'projectId'
  | 'name'
  | 'description'
  | 'templateId'
  | 'templateName'
  | 'templateSource'
  | 'templatePorts'
  | 'templateCustomCommand'
  | 'templateReadyCommand'
  | 'image'
  | 'cpuCount'
  | 'memoryMb'
  | 'storageGb'
  | 'timeoutSeconds'
  | 'autoPause'
  | 'secure'
  | 'allowInternetAccess'
  | 'metadata'
  | 'envVars'
  | 'customPorts'
> &
  Partial<
    Pick<
      Sandbox,
      'publicPorts' | 'secretKeyNumber' | 'objectStorage' | 'startImageCommand' | 'directMount' | 's3fsPath'
    >
  >;

export interface Admitted {
  sandbox: Sandbox;
  /** Its host was asked to start it directly. */
  isDirect: boolean;
}

/**
 * Admits a sandbox and places it, in one transaction: a lock of the account, the plan's limits, capacity on a live
 * host, the row as `created`, its first event, and the outbox row that starts its workflow. So concurrent creates never
 * exceed the plan.
 * @throws {AppError} `plan_limit_exceeded`, `concurrent_limit_reached`, `quota_used_up`, `budget_restricted`,
 * `account_suspended`, `subscription_past_due`, `no_capacity`, `start_queue_full`, `locality_constraint_failed`,
 * `template_not_found`
 * @param how.waits whether a client waits for the start: then it is refused rather than queued for long
 * @param how.direct ask the host to start the sandbox before its workflow begins, for this request
 */
export async function admitSandbox(
  em: EntityManager,
  plans: PlanCatalog,
  asked: NewSandbox,
  preference: RegionPreference,
  { waits = false, direct = null }: { waits?: boolean; direct?: { requestId: string | null } | null } = {},
): Promise<Admitted> {
  return accountTransaction(em, asked.accountId, async (tx) => {
    const plan = await lockAccountForOneMore(tx, plans, asked);
    checkPlanLimits(plan, asked);
    const needed = {
      ...computeRequired(asked, await keepTemplate(tx, asked.templateId)),
      ...(waits && { maxStartWaitSeconds }),
    };
    const host = await reserveHost(tx, needed, { preference, accountId: asked.accountId });
    const admitted = {
      objectStorage: [],
      ...asked,
      status: 'created' as const,
      reason: 'user_requested' as const,
      eventSequence: 0,
      persistenceDays: plan.persistenceDays,
      diskRates: plan.maxDiskRatesPerSandbox ?? null,
      region: host.region,
      nearestRegions: preference.nearest,
      regionForced: preference.forced,
      hostId: host.hostId,
      udpHostPorts: await takeUdpPorts(tx, host.hostId, listUdpPorts(asked)),
    };
    return insertAdmitted(tx, admitted, direct);
  });
}

/**
 * Inserts the row, its first event and the start of its workflow, and tells the host of a direct start, in one
 * statement. The host hears of it when the transaction is committed. The relay waits for a direct start, which normally
 * ends much sooner.
 * @param sandbox the columns without a default
 */
export async function insertAdmitted(
  tx: EntityManager,
  sandbox: LifeFields & EventFields,
  direct: { requestId: string | null } | null,
): Promise<Admitted> {
  const { sandboxId, hostId } = sandbox;
  const event = newSandboxEvent(sandbox, 'sandbox.created', new Date());
  const row = insertStatement(tx, Sandbox, sandbox);
  const recorded = insertStatement(tx, Event, event);
  const start = toStartEntry('sandbox', sandboxId, toLifeStart(sandbox));
  const [made] = await query<EntityRow<Sandbox> & { is_direct: boolean }>(
    tx,
    `with told as (select pg_notify(?, ?) from hosts where host_id = ? and hears_starts and ?),
       direct as (select exists (select from told) as is_direct),
       row as (${row.sql} returning *),
       event as (${recorded.sql}),
       start as (insert into outbox (workflow_type, workflow_id, input, not_before)
         select ?, ?, ?::jsonb, now() + case when is_direct then interval '${directMoveSeconds} seconds' else '0' end
           from direct)
     select row.*, is_direct from row, direct`,
    [
      ...[workChannel(hostId), toWorkNotice('start', sandboxId, direct?.requestId ?? null), hostId, direct !== null],
      ...[...row.values, ...recorded.values],
      ...[start.workflowType, start.workflowId, JSON.stringify(start.input)],
    ],
  );
  return { sandbox: readRow(tx, Sandbox, made!), isDirect: made!.is_direct };
}

type LifeFields = Pick<
  Sandbox,
  | 'sandboxId'
  | 'accountId'
  | 'ownerUserId'
  | 'projectId'
  | 'templateId'
  | 'hostId'
  | 'region'
  | 'timeoutSeconds'
  | 'autoPause'
  | 'persistenceDays'
  | 'objectStorage'
>;

/** Makes the input of a sandbox's workflow from its row. */
export function toLifeStart(row: LifeFields): LifeStart {
  return {
    sandboxId: row.sandboxId,
    timeoutSeconds: row.timeoutSeconds,
    ...(row.objectStorage.length > 0 && { awaitsCredentials: true }),
    plan: {
      hostId: row.hostId,
      accountId: row.accountId,
      userId: row.ownerUserId,
      projectId: row.projectId,
      templateId: row.templateId,
      region: row.region,
      autoPause: row.autoPause,
      persistenceDays: row.persistenceDays ?? null,
    },
  };
}

/**
 * A template that is being deleted takes no more sandboxes, and a template with sandboxes cannot be deleted.
 * @returns the measured use of its sandboxes
 */
async function keepTemplate(tx: EntityManager, templateId: TemplateId): Promise<TemplateUse | null> {
  const [found] = await query<{ cpu: number | null; memory_mb: number | null }>(
    tx,
    `select p.cpu, p.memory_mb from templates t left join template_peaks p using (template_id)
      where template_id = ? for key share of t`,
    [templateId],
  );
  if (!found) throw new AppError('template_not_found', 'The template no longer exists');
  return found.cpu === null ? null : { cpu: found.cpu, memoryMb: found.memory_mb! };
}

/**
 * Checks the resume of a paused sandbox against the plan and against its host, which must be the host with its disk.
 * Call this inside the transaction that moves the row to `resuming`.
 * @throws {AppError} `concurrent_limit_reached`, `quota_used_up`, `budget_restricted`, `account_suspended`,
 * `subscription_past_due`, `no_capacity`
 */
export async function admitResume(tx: EntityManager, plans: PlanCatalog, sandbox: Sandbox): Promise<void> {
  await lockAccountForOneMore(tx, plans, sandbox);
  const asked = await requiredCapacity(tx, sandbox);
  // The host's figures already include the sandbox's disk and most of its memory. Only the rest is needed.
  const memory = sandbox.holdsCompute ? 0 : asked.memoryMb;
  const expected = { cpu: 0, memoryMb: sandbox.holdsCompute ? 0 : asked.expected.memoryMb, diskMb: 0 };
  const needed = { ...asked, diskGb: 0, udpPorts: 0, memoryMb: memory, expected };
  await reserveHost(tx, needed, { hostId: sandbox.hostId });
}

type Sized = Pick<Sandbox, 'templateId' | 'cpuCount' | 'memoryMb' | 'storageGb' | 'templatePorts' | 'customPorts'>;

/** The capacity that a sandbox needs: its promised resources, and the measured use of its template's sandboxes. */
export async function requiredCapacity(tx: EntityManager, sandbox: Sized): Promise<RequiredCapacity> {
  return computeRequired(sandbox, await templateUse(tx, sandbox.templateId));
}

function computeRequired(sandbox: Omit<Sized, 'templateId'>, use: TemplateUse | null): RequiredCapacity {
  const nominal = { cpu: sandbox.cpuCount, memoryMb: sandbox.memoryMb, diskGb: sandbox.storageGb };
  return { ...nominal, udpPorts: listUdpPorts(sandbox).length, expected: expectedUse(nominal, use) };
}

/** This takes two round trips, because the counts must be read while the lock is held. */
async function lockAccountForOneMore(
  tx: EntityManager,
  plans: PlanCatalog,
  { accountId, ownerUserId }: Pick<Sandbox, 'accountId' | 'ownerUserId'>,
): Promise<Plan> {
  const [account] = await query<{
    plan_name: string;
    status: Account['status'];
    bought_plan: Plan | null;
    subscription_status: SubscriptionStatus | null;
  }>(
    tx,
    `select a.plan_name, a.status, s.plan as bought_plan, s.status as subscription_status
       from accounts a left join subscriptions s using (account_id) where account_id = ? for no key update of a`,
    [accountId],
  );
  if (!account) throw notFound('Account');
  if (account.status === 'suspended') throw new AppError('account_suspended', 'The account is suspended');
  if (account.subscription_status === 'past_due') {
    throw new AppError(
      'subscription_past_due',
      'An invoice of the account is past due; add a payment method or pay it first',
    );
  }
  const plan = planHeldBy({ planName: account.plan_name, boughtPlan: account.bought_plan }, plans);
  const concurrent = await countConcurrent(tx, accountId, ownerUserId);
  const { ofAccount, ofUser, userLimit, isMetered, budget } = concurrent;
  if (budget === 'restricts') throw budgetRestricted();
  const { of, limit } = accountLimit(plan.maxConcurrentSandboxes, concurrent.accountLimit);
  if (ofAccount >= limit) {
    throw new AppError(
      'concurrent_limit_reached',
      `The ${of === 'plan' ? `${plan.displayName} plan` : 'quota of the account'} allows ${limit} sandboxes at once; pause or terminate one first`,
    );
  }
  if (userLimit !== null && !allowsOneMoreSandbox(userLimit, ofUser)) {
    throw new AppError(
      'concurrent_limit_reached',
      `The quota of the user allows ${userLimit} sandboxes at once; pause or terminate one first`,
    );
  }
  if (isMetered) await requireMeteredQuota(tx, { accountId, userId: ownerUserId }, new Date());
  if (budget === 'allows') requestSignal(tx, 'budget', accountId, 'checkBudget', { because: 'sandbox' });
  return plan;
}

interface Concurrent {
  /** The sandboxes that count now. */
  ofAccount: number;
  ofUser: number;
  /** The limits of the quotas of the user and of the account. Null: no limit. */
  userLimit: number | null;
  accountLimit: number | null;
  /** The quota of the user or of the account limits metered usage. */
  isMetered: boolean;
  /** Null: the account has no active budget. */
  budget: 'allows' | 'restricts' | null;
}

async function countConcurrent(tx: EntityManager, accountId: AccountId, userId: UserId): Promise<Concurrent> {
  const [row] = await query<{
    of_account: number;
    of_user: number;
    user_limit: number | null;
    account_limit: number | null;
    is_metered: boolean;
    is_restricted: boolean | null;
  }>(
    tx,
    `select count(*)::int as of_account, (count(*) filter (where owner_user_id = ?))::int as of_user,
            (select concurrent_sandboxes from quota_allocations where user_id = ? and status = 'active') as user_limit,
            (select concurrent_sandboxes from quota_allocations
              where account_id = ? and user_id is null and status = 'active') as account_limit,
            exists (select from quota_allocations where user_id = ? and status = 'active'
                     and ${limitsWhatIsMetered})
              or exists (select from quota_allocations where account_id = ? and user_id is null and status = 'active'
                     and ${limitsWhatIsMetered}) as is_metered,
            (select is_restricted from budgets where account_id = ? and is_active) as is_restricted
       from sandboxes where account_id = ? and status = any(?::text[])`,
    [...[userId, userId, accountId, userId, accountId, accountId, accountId], `{${concurrentStatuses.join(',')}}`],
  );
  return {
    ofAccount: row!.of_account,
    ofUser: row!.of_user,
    userLimit: row!.user_limit,
    accountLimit: row!.account_limit,
    isMetered: row!.is_metered,
    budget: row!.is_restricted === null ? null : row!.is_restricted ? 'restricts' : 'allows',
  };
}

/** The host of the last read, if it was the only one. It is locked before the next read, which then needs no other. */
let onlyHostId: string | null = null;

/**
 * Finds a live host with capacity and locks its row until the transaction ends, so that no other transaction takes the
 * same capacity. Only the selected host is locked, so creates on different hosts do not wait for each other.
 */
export async function reserveHost(
  tx: EntityManager,
  needed: RequiredCapacity,
  where: { preference?: RegionPreference; hostId?: string; except?: string; accountId?: AccountId },
): Promise<HostCapacity> {
  const full = new Set<string>(where.except ? [where.except] : []);
  let short: Resource[] = [];
  let lockedId = where.hostId ?? onlyHostId;
  if (lockedId) await lockRow(tx, 'hosts', lockedId);
  for (;;) {
    const read = await readHostCapacities(tx, where.hostId ?? null, where.accountId);
    if (!where.hostId) onlyHostId = read.length === 1 ? read[0]!.hostId : null;
    const open = read.filter((host) => !full.has(host.hostId));
    if (where.hostId && full.size === 0 && open.length === 0) {
      throw new AppError(
        'host_unavailable',
        'The host of this sandbox is down or accepts no sandboxes now; try again when it is back',
      );
    }
    const chosen = chooseHost(open, needed, where.preference ?? anyRegion);
    if (!chosen) throw noCapacity(where, open.length > 0 ? fewestShortages(open, needed) : short);
    if (chosen.hostId === lockedId) return chosen;
    lockedId = chosen.hostId;
    await lockRow(tx, 'hosts', chosen.hostId);
    const [locked] = await readHostCapacities(tx, chosen.hostId, where.accountId);
    if (locked && fits(locked, needed)) return locked;
    full.add(chosen.hostId);
    short = locked ? findShortages(locked, needed) : [];
    if (where.hostId) throw noCapacity(where, short);
  }
}

/**
 * Finds a free port of the host for each of these ports of a sandbox. The host's row is locked until the transaction
 * ends, so that no two sandboxes get the same port. The ports are taken when the sandbox's row is written.
 * @returns the host's port by the sandbox's
 * @throws {AppError} `no_capacity`
 */
export async function takeUdpPorts(
  tx: EntityManager,
  hostId: string,
  ports: readonly number[],
): Promise<Record<string, number>> {
  if (ports.length === 0) return {};
  await lockRow(tx, 'hosts', hostId);
  const free = await query<{ port: number }>(
    tx,
    `select candidate as port
       from hosts h, generate_series(h.udp_port_first, h.udp_port_last) candidate
      where h.host_id = ? and candidate not in (
        select taken.value::int from sandboxes s, jsonb_each_text(s.udp_host_ports) taken
         where s.host_id = ? and (s.holds_compute or s.holds_disk))
      order by random() limit ?`,
    [hostId, hostId, ports.length],
  );
  if (free.length < ports.length) {
    throw new AppError('no_capacity', 'The host of this sandbox has no UDP port left; try again later');
  }
  return Object.fromEntries(ports.map((port, at) => [port, free[at]!.port]));
}

const resourceNames: Record<Resource, string> = {
  cpu: 'processor time',
  memory: 'memory',
  disk: 'disk space',
  udp_ports: 'UDP ports',
  starts: 'places for starts',
};

/** @param short the resources that the hosts lack; empty: no host takes sandboxes */
function noCapacity(
  { preference, hostId }: { preference?: RegionPreference; hostId?: string },
  short: readonly Resource[],
): AppError {
  if (short.length > 0 && short.every((resource) => resource === 'starts')) {
    const message = `Too many sandboxes are starting now: this one would wait for more than ${maxStartWaitSeconds} seconds`;
    return new AppError('start_queue_full', message);
  }
  const what =
    short.length === 0 ? 'room' : `enough free ${short.map((resource) => resourceNames[resource]).join(' and ')}`;
  if (preference?.forced) {
    const message = `No host of the region ${preference.nearest[0]} has ${what} for this sandbox now`;
    return new AppError('locality_constraint_failed', message);
  }
  const who = hostId ? 'The host of this sandbox does not have' : 'No host has';
  return new AppError('no_capacity', `${who} ${what} for this sandbox now; try again later`);
}
