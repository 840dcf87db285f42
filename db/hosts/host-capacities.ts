import type { EntityManager } from '@mikro-orm/postgresql';
import type { FreeCapacity } from '../../domain/hosts/capacity.ts';
import {
  expectedUse,
  type FullDisk,
  type HostCapacity,
  lessExpected,
  type TemplateUse,
} from '../../domain/hosts/placement.ts';
import type { AccountId, SandboxId, TemplateId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';

/** A host without measurements for this long takes no sandboxes, because its figures are outdated. */
const staleAfterSeconds = 30;
/**
 * The half-life of the peak of a template's memory: in this time the peak falls half the way to the use of the newest
 * sandboxes.
 */
const peakHalfLifeSeconds = 3600;
/** The weight of the newest sandboxes in the mean of a template's processor use. */
const newestPart = 0.2;

interface CapacityRow {
  host_id: string;
  region: string;
  cpu_capacity: number | null;
  memory_mb_capacity: number | null;
  disk_gb_capacity: number | null;
  udp_port_capacity: number;
  full_disk: FullDisk | null;
  is_fresh: boolean | null;
  memory_mb_total: number | null;
  cpu_free: number | null;
  memory_mb_free: number | null;
  disk_mb_free: number | null;
  cpu: string;
  memory_mb: string;
  disk_gb: string;
  udp_ports: string;
  seconds_per_start: number | null;
  /** Recent creates that are not running yet: of all accounts, and of the asked one. */
  starting: number;
  starting_of_account: number;
  /** The unmeasured sandboxes: cores, MB, GB, and the use of their template or nulls. */
  unmeasured: [number, number, number, number | null, number | null][];
}

/** A create that takes longer waits for something else than the starts of others, such as the pull of an image. */
const longestStartSeconds = 60;

/**
 * The capacity of hosts that currently take sandboxes. Lock the row of one host first to rely on its figures.
 * @param accountId the account that wants to start a sandbox: it may have half of a host's starts
 */
export async function readHostCapacities(
  tx: EntityManager,
  hostId: string | null = null,
  accountId: AccountId | null = null,
): Promise<HostCapacity[]> {
  const isStarting = `s.status in ('created', 'starting') and s.created_at > now() - make_interval(secs => ${longestStartSeconds})`;
  const rows = await query<CapacityRow>(
    tx,
    `select h.host_id, h.region, h.cpu_capacity, h.memory_mb_capacity, h.disk_gb_capacity, h.full_disk,
            h.measured_at > now() - make_interval(secs => ${staleAfterSeconds}) as is_fresh,
            h.memory_mb_total, h.cpu_free, h.memory_mb_free, h.disk_mb_free,
            coalesce(h.udp_port_last - h.udp_port_first + 1, 0) as udp_port_capacity,
            coalesce(sum(s.cpu_count) filter (where s.holds_compute and s.status <> 'paused'), 0) as cpu,
            coalesce(sum(s.memory_mb) filter (where s.holds_compute), 0) as memory_mb,
            coalesce(sum(s.storage_gb) filter (where s.holds_disk), 0) as disk_gb,
            coalesce(sum((select count(*) from jsonb_object_keys(s.udp_host_ports)))
                       filter (where s.udp_host_ports <> '{}'), 0) as udp_ports,
            h.seconds_per_start,
            count(*) filter (where ${isStarting})::int as starting,
            count(*) filter (where ${isStarting} and s.account_id = ?)::int as starting_of_account,
            coalesce(jsonb_agg(jsonb_build_array(s.cpu_count, s.memory_mb, s.storage_gb, p.cpu, p.memory_mb))
                       filter (where s.holds_compute and not s.is_measured and s.status <> 'paused'), '[]') as unmeasured
       from hosts h
       left join sandboxes s on s.host_id = h.host_id and (s.holds_compute or s.holds_disk)
       left join template_peaks p on p.template_id = s.template_id and not s.is_measured
      where h.lease_expires_at > now() and h.draining_since is null and (?::text is null or h.host_id = ?)
      group by h.host_id`,
    [accountId, hostId, hostId],
  );
  return rows.map((row) => ({
    hostId: row.host_id,
    region: row.region,
    cpu: { capacity: row.cpu_capacity, reserved: Number(row.cpu) },
    memoryMb: { capacity: row.memory_mb_capacity, reserved: Number(row.memory_mb) },
    diskGb: { capacity: row.disk_gb_capacity, reserved: Number(row.disk_gb) },
    udpPorts: { capacity: row.udp_port_capacity, reserved: Number(row.udp_ports) },
    free: computeFreeRoom(row),
    fullDisk: row.full_disk,
    startWaitSeconds: Math.max(row.starting, 2 * row.starting_of_account) * (row.seconds_per_start ?? 0),
  }));
}

function computeFreeRoom(row: CapacityRow): FreeCapacity | null {
  if (row.is_fresh === null) return null;
  const memoryTotalMb = row.memory_mb_total!;
  if (!row.is_fresh) return { memoryTotalMb, cpu: 0, memoryMb: 0, diskMb: 0 };
  const free = { memoryTotalMb, cpu: row.cpu_free!, memoryMb: row.memory_mb_free!, diskMb: row.disk_mb_free! };
  const expected = row.unmeasured.map(([cpu, memoryMb, diskGb, usualCpu, peakMemoryMb]) => {
    const known = usualCpu === null ? null : { cpu: usualCpu, memoryMb: peakMemoryMb! };
    return expectedUse({ cpu, memoryMb, diskGb }, known);
  });
  return lessExpected(free, expected);
}

/** Null: no sandbox of this template was measured. */
export async function templateUse(tx: EntityManager, templateId: TemplateId): Promise<TemplateUse | null> {
  const [row] = await query<{ cpu: number; memory_mb: number }>(
    tx,
    'select cpu, memory_mb from template_peaks where template_id = ?',
    [templateId],
  );
  return row ? { cpu: row.cpu, memoryMb: row.memory_mb } : null;
}

/** Sets the use that sandboxes of a template count with until a host has measured some. */
export async function guessTemplateUse(em: EntityManager, templateId: TemplateId, use: TemplateUse): Promise<void> {
  await query(em, 'insert into template_peaks (template_id, cpu, memory_mb) values (?, ?, ?) on conflict do nothing', [
    templateId,
    use.cpu,
    use.memoryMb,
  ]);
}

/** A host's measurements. */
export interface CapacityReport {
  /** Null: not measured. */
  secondsPerStart: number | null;
  free: FreeCapacity;
  shortOf: readonly string[];
  /** The sandboxes that the host's figures include from now on. */
  measuredIds: readonly string[];
  /** The use of these sandboxes, by template. */
  templates: ReadonlyMap<string, TemplateUse>;
}

/** Stores a host's measurements in one statement, so that an admission sees all or none of them. */
export async function storeCapacity(em: EntityManager, hostId: string, report: CapacityReport): Promise<void> {
  const { free, shortOf, measuredIds, templates } = report;
  const column = (of: (use: TemplateUse) => number) => `{${[...templates.values()].map(of).join(',')}}`;
  // Sandbox rows are locked before the host's row, in the same order as in a resume.
  await query(
    em.fork(),
    `with measured as (
       update sandboxes set is_measured = true
        where sandbox_id = any(?::text[]) and host_id = ? and holds_compute and not is_measured returning 1
     ), learned as (
       insert into template_peaks as p (template_id, cpu, memory_mb)
       select * from unnest(?::text[], ?::real[], ?::real[]) order by 1
       on conflict (template_id) do update set
         cpu = p.cpu + (excluded.cpu - p.cpu) * ${newestPart},
         memory_mb = greatest(excluded.memory_mb, excluded.memory_mb + (p.memory_mb - excluded.memory_mb)
           * power(0.5, extract(epoch from now() - p.updated_at) / ${peakHalfLifeSeconds})),
         updated_at = now()
       returning 1
     ), first as (select (select count(*) from measured) + (select count(*) from learned) as rows)
     update hosts set memory_mb_total = ?, cpu_free = ?, memory_mb_free = ?, disk_mb_free = ?, short_of = ?::text[],
            seconds_per_start = ?, measured_at = now()
       from first where host_id = ? and first.rows >= 0`,
    [
      ...[`{${measuredIds.join(',')}}`, hostId],
      ...[`{${[...templates.keys()].join(',')}}`, column((use) => use.cpu)],
      column((use) => use.memoryMb),
      ...[free.memoryTotalMb, free.cpu, free.memoryMb, free.diskMb, `{${shortOf.join(',')}}`],
      ...[report.secondsPerStart, hostId],
    ],
  );
}

export interface SizedSandbox {
  sandboxId: SandboxId;
  templateId: TemplateId;
  cpuCount: number;
}

export async function readSizes(em: EntityManager, sandboxIds: readonly SandboxId[]): Promise<SizedSandbox[]> {
  const rows = await query<{ sandbox_id: SandboxId; template_id: TemplateId; cpu_count: number }>(
    em.fork(),
    'select sandbox_id, template_id, cpu_count from sandboxes where sandbox_id = any(?::text[])',
    [`{${sandboxIds.join(',')}}`],
  );
  return rows.map((row) => ({ sandboxId: row.sandbox_id, templateId: row.template_id, cpuCount: row.cpu_count }));
}
