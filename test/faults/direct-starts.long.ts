import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import pg from 'pg';
import type { SandboxId } from '../../domain/ids.ts';
import { lifeQuery } from '../../workflows/sandboxes/life/messages.ts';
import { until } from '../support/until.ts';
import { directFaults, fault } from './direct-faults.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { takeInventory } from './inventory.ts';
import { deleteAll, wrongTotals } from './matrix.ts';
import { withPlatform } from './with-platform.ts';

/** Creates at once. Their sandboxes are then at different points of their starts. */
const atOnce = 6;
/** From the requests to the fault, so that it comes during the admission, the start, the reply and the workflow's begin. */
const delaysMs = [5, 30, 60, 110];
const wanted = { cpu_count: 1, memory_mb: 256, storage_gb: 10, timeout: 3600, allow_internet_access: false };
/** A later status never becomes an earlier one. */
const order = ['created', 'starting', 'running', 'terminating', 'failed', 'terminated'];

let platform: FaultyPlatform;
withPlatform(
  (started) => {
    platform = started;
  },
  { PLATFORM_WARM_POOL_SIZE: '4', PLATFORM_WARM_POOL_MAX_SIZE: '6' },
);

/** Reads the statuses of all sandboxes continuously, and remembers each step back. */
class StatusWatch {
  readonly backwards: string[] = [];
  readonly #latest = new Map<string, string>();
  #isOver = false;
  #running: Promise<void> = Promise.resolve();

  begin(): void {
    this.#running = this.#watch();
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #watch(): Promise<void> {
    while (!this.#isOver) {
      const client = new pg.Client({ connectionString: platform.settings.DATABASE_URL, connectionTimeoutMillis: 2000 });
      // A killed Postgres ends the connection.
      client.on('error', () => {});
      try {
        await client.connect();
        while (!this.#isOver) {
          const { rows } = await client.query('select sandbox_id, status from sandboxes where deleted_at is null');
          for (const { sandbox_id: id, status } of rows) this.#note(id, status);
          await delay(5);
        }
      } catch {
        await delay(100);
      } finally {
        await client.end().catch(() => {});
      }
    }
  }

  #note(id: string, status: string): void {
    const before = this.#latest.get(id);
    if (before !== undefined && order.indexOf(status) < order.indexOf(before)) {
      this.backwards.push(`${id}: ${before} to ${status}`);
    }
    this.#latest.set(id, status);
  }
}

/** @returns the id, and whether the caller was told that it runs */
async function create(): Promise<{ sandboxId: SandboxId; runs: boolean } | null> {
  try {
    const { status, body } = await platform.api.request<{ sandbox_id: SandboxId; status: string }>(
      'POST',
      '/v1/sandboxes',
      wanted,
    );
    return status === 201 || status === 202
      ? { sandboxId: body.data.sandbox_id, runs: body.data.status === 'running' }
      : null;
  } catch {
    return null;
  }
}

/** Only members of the pool remain on the machine, and nothing in Postgres and Temporal. */
async function nothingLeft(): Promise<void> {
  let left: string[] = [];
  await until(async () => {
    const { containers, folders, rows, workflows, reservations } = await takeInventory(platform);
    const notOfPool = [
      ...containers.filter((name) => !name.startsWith('pool-')),
      ...folders.filter((name) => !name.startsWith('pool/')),
    ];
    left = [...notOfPool, ...rows, ...workflows, ...reservations];
    return left.length === 0;
  }, 60_000).catch(() => {});
  expect(left).toEqual([]);
}

const rowsByStatus = async () => {
  const rows = await platform.rows<{ sandbox_id: SandboxId; status: string }>(
    "select sandbox_id, status from sandboxes where status <> 'terminated'",
  );
  return new Map(rows.map(({ sandbox_id, status }) => [sandbox_id, status]));
};

test.each(directFaults)(
  'creates while %s has a %s lose nothing that was acknowledged, and each sandbox has its workflow',
  async (part, kind) => {
    const counts = { asked: 0, running: 0, unanswered: 0 };
    for (const delayMs of delaysMs) {
      const watch = new StatusWatch();
      watch.begin();
      const asked = Promise.all(Array.from({ length: atOnce }, create));
      await delay(delayMs);
      await fault(platform, part, kind);
      const replies = await asked;
      await platform.untilReady();
      // Every admitted sandbox comes to an end of its start, also those whose caller got no reply.
      await until(async () => {
        const statuses = [...(await rowsByStatus()).values()];
        return !statuses.some((status) => status === 'created' || status === 'starting');
      }, 90_000);
      const statuses = await rowsByStatus();
      for (const reply of replies) {
        if (reply?.runs)
          expect(`${reply.sandboxId} ${statuses.get(reply.sandboxId)}`).toBe(`${reply.sandboxId} running`);
      }
      for (const [sandboxId, status] of statuses) {
        expect(`${sandboxId} ${status}`).toBe(`${sandboxId} running`);
        // The workflow knows the sandbox, and its host runs it.
        await until(async () => {
          const life = await platform.temporal.workflow
            .getHandle(sandboxId)
            .query(lifeQuery)
            .catch(() => null);
          return life?.status === 'running';
        }, 30_000);
        const run = await platform.api.request('POST', `/v1/sandboxes/${sandboxId}/exec`, {
          command: 'echo up',
          wait: true,
        });
        expect(`${run.status} ${JSON.stringify(run.body)}`).toMatch(/^20\d/);
      }
      const events = await platform.rows<{ object_id: string; types: string[] }>(
        `select object_id, array_agg(type order by sequence) as types from events
          where object_id = any(?::text[]) group by object_id`,
        [`{${[...statuses.keys()].join(',')}}`],
      );
      for (const { types } of events) expect(types).toEqual(['sandbox.created', 'sandbox.started']);
      await watch.end();
      expect(watch.backwards).toEqual([]);
      counts.asked += replies.length;
      counts.running += replies.filter((reply) => reply?.runs).length;
      counts.unanswered += replies.filter((reply) => reply === null).length;
      expect(await wrongTotals(platform)).toEqual([]);
      await deleteAll(platform);
      await nothingLeft();
    }
    console.log(`${part} ${kind}: ${JSON.stringify(counts)}`);
  },
  600_000,
);
