import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import { lifeStartOf } from '../../domain/life-plan.ts';
import { chooseHost, type FullDisk, fits, type HostRoom, isDiskFull, type RoomNeeded } from '../../domain/placement.ts';
import { checkPlanLimits, type Plan } from '../../domain/plans.ts';
import { udpPortsOf } from '../../domain/ports.ts';
import { anyRegion, type RegionWish } from '../../domain/regions.ts';
import { concurrentStatuses } from '../../domain/sandbox-state.ts';
import { accountTransaction } from '../account-transaction.ts';
import { Account } from '../entities/account.ts';
import { OutboxEntry } from '../entities/outbox-entry.ts';
import { Sandbox } from '../entities/sandbox.ts';
import type { PlanCatalog } from '../plans.ts';
import { tellSandboxEvent } from './events.ts';
import { lockRow } from './lock-row.ts';
import { takeUdpPorts } from './udp-ports.ts';

/** What the caller decided about a new sandbox; the rest follows from the plan and from placement. */
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
  Partial<Pick<Sandbox, 'objectStorage' | 'directMount' | 's3fsPath'>>;

/**
 * Admits a sandbox and places it, in one transaction: a lock of the account, the plan's limits, room on a live host,
 * the row as `created`, its first event, and the outbox row that starts its workflow. So of many creates at once
 * exactly as many are admitted as the plan allows.
 * @throws {AppError} `plan_limit_exceeded`, `concurrent_limit_reached`, `account_suspended`, `no_capacity`,
 *   `locality_constraint_failed`
 */
export async function admitSandbox(
  em: EntityManager,
  plans: PlanCatalog,
  asked: NewSandbox,
  wish: RegionWish,
): Promise<Sandbox> {
  return accountTransaction(em, asked.accountId, async (tx) => {
    const plan = await lockAccountForOneMore(tx, plans, asked.accountId);
    checkPlanLimits(plan, asked);
    const host = await reserveHost(tx, roomFor(asked), { wish });
    const sandbox = tx.create(Sandbox, {
      ...asked,
      status: 'created',
      reason: 'user_requested',
      persistenceDays: plan.persistenceDays,
      region: host.region,
      nearestRegions: wish.nearest,
      regionForced: wish.forced,
      hostId: host.hostId,
      udpHostPorts: await takeUdpPorts(tx, host.hostId, udpPortsOf(asked)),
    });
    tellSandboxEvent(tx, sandbox, 'sandbox.created', new Date());
    tx.create(OutboxEntry, {
      workflowType: 'sandbox',
      workflowId: sandbox.sandboxId,
      input: { ...lifeStartOf(sandbox) },
    });
    return sandbox;
  });
}

/**
 * Holds the resume of a paused sandbox against the plan again, and against its host: it comes back where its disk is.
 * Call it inside the transaction that moves the row to `resuming`.
 * @throws {AppError} `concurrent_limit_reached`, `account_suspended`, `no_capacity`
 */
export async function admitResume(tx: EntityManager, plans: PlanCatalog, sandbox: Sandbox): Promise<void> {
  await lockAccountForOneMore(tx, plans, sandbox.accountId);
  // Its disk stayed, and mostly its memory too; only what it does not hold yet must be found.
  const needed = { ...roomFor(sandbox), diskGb: 0, udpPorts: 0, memoryMb: sandbox.holdsCompute ? 0 : sandbox.memoryMb };
  await reserveHost(tx, needed, { hostId: sandbox.hostId });
}

export function roomFor(
  sandbox: Pick<Sandbox, 'cpuCount' | 'memoryMb' | 'storageGb' | 'templatePorts' | 'customPorts'>,
): RoomNeeded {
  const udpPorts = udpPortsOf(sandbox).length;
  return { cpu: sandbox.cpuCount, memoryMb: sandbox.memoryMb, diskGb: sandbox.storageGb, udpPorts };
}

async function lockAccountForOneMore(tx: EntityManager, plans: PlanCatalog, accountId: string): Promise<Plan> {
  await lockRow(tx, 'accounts', accountId);
  const account = await tx.findOne(Account, { accountId }, { refresh: true });
  if (!account) throw notFound('Account');
  if (account.status === 'suspended') throw new AppError('account_suspended', 'The account is suspended');
  const plan = plans.get(account.planName);
  const active = await tx.count(Sandbox, { accountId, status: { $in: [...concurrentStatuses] } });
  if (active >= plan.maxConcurrentSandboxes) {
    throw new AppError(
      'concurrent_limit_reached',
      `The ${plan.displayName} plan allows ${plan.maxConcurrentSandboxes} sandboxes at once; pause or terminate one first`,
    );
  }
  return plan;
}

/**
 * Finds a live host with room and locks its row until the transaction ends, so that nobody else takes the same room.
 * Only the chosen host is locked: creates on different hosts do not wait for each other.
 */
export async function reserveHost(
  tx: EntityManager,
  needed: RoomNeeded,
  where: { wish?: RegionWish; hostId?: string; except?: string },
): Promise<HostRoom> {
  const full = new Set<string>(where.except ? [where.except] : []);
  for (;;) {
    const open = (await readRooms(tx, where.hostId ?? null)).filter((room) => !full.has(room.hostId));
    if (where.hostId && full.size === 0 && open.length === 0) {
      throw new AppError('host_unavailable', 'The host of this sandbox is away; try again when it is back');
    }
    const chosen = chooseHost(open, needed, where.wish ?? anyRegion);
    if (!chosen)
      throw noRoom(
        where,
        open.some((room) => isDiskFull(room, needed)),
      );
    await lockRow(tx, 'hosts', chosen.hostId);
    const [locked] = await readRooms(tx, chosen.hostId);
    if (locked && fits(locked, needed)) return locked;
    full.add(chosen.hostId);
    if (where.hostId) throw noRoom(where, locked !== undefined && isDiskFull(locked, needed));
  }
}

/** @param diskIsFull a host was left out because its disk is nearly full */
function noRoom({ wish, hostId }: { wish?: RegionWish; hostId?: string }, diskIsFull: boolean): AppError {
  const what = diskIsFull ? 'free disk space' : 'room';
  if (wish?.forced) {
    const message = `No host of the region ${wish.nearest[0]} has ${what} for this sandbox now`;
    return new AppError('locality_constraint_failed', message);
  }
  const who = hostId ? 'The host of this sandbox has no' : 'No host has';
  return new AppError('no_capacity', `${who} ${what} for this sandbox now; try again later`);
}

interface RoomRow {
  host_id: string;
  region: string;
  cpu_capacity: number;
  memory_mb_capacity: number;
  disk_gb_capacity: number;
  udp_port_capacity: number;
  full_disk: FullDisk | null;
  cpu: string;
  memory_mb: string;
  disk_gb: string;
  udp_ports: string;
}

/** Of hosts that take sandboxes now. */
export async function readRooms(tx: EntityManager, hostId: string | null = null): Promise<HostRoom[]> {
  const rows = (await tx.execute(
    `select h.host_id, h.region, h.cpu_capacity, h.memory_mb_capacity, h.disk_gb_capacity, h.full_disk,
            coalesce(h.udp_port_last - h.udp_port_first + 1, 0) as udp_port_capacity,
            coalesce(sum(s.cpu_count) filter (where s.holds_compute and s.status <> 'paused'), 0) as cpu,
            coalesce(sum(s.memory_mb) filter (where s.holds_compute), 0) as memory_mb,
            coalesce(sum(s.storage_gb) filter (where s.holds_disk), 0) as disk_gb,
            coalesce(sum((select count(*) from jsonb_object_keys(s.udp_host_ports))), 0) as udp_ports
       from hosts h
       left join sandboxes s on s.host_id = h.host_id and (s.holds_compute or s.holds_disk)
      where h.lease_expires_at > now() and (?::text is null or h.host_id = ?)
      group by h.host_id`,
    [hostId, hostId],
  )) as RoomRow[];
  return rows.map((row) => ({
    hostId: row.host_id,
    region: row.region,
    cpu: { capacity: row.cpu_capacity, reserved: Number(row.cpu) },
    memoryMb: { capacity: row.memory_mb_capacity, reserved: Number(row.memory_mb) },
    diskGb: { capacity: row.disk_gb_capacity, reserved: Number(row.disk_gb) },
    udpPorts: { capacity: row.udp_port_capacity, reserved: Number(row.udp_ports) },
    fullDisk: row.full_disk,
  }));
}
