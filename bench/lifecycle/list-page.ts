import { Client } from 'pg';
import type { SandboxId } from '../../domain/ids.ts';
import type { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { inTurn, timed } from '../statistics.ts';

/** Fills the account with ended sandboxes, copies of an existing one. */
export async function addEndedSandboxes(databaseUrl: string, sandboxId: SandboxId, sandboxes: number): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query(`select column_name from information_schema.columns
      where table_name = 'sandboxes' and column_name not in ('sandbox_id', 'status', 'created_at', 'holds_compute', 'holds_disk')`);
    const columns = rows.map((row) => row.column_name).join(', ');
    await client.query(
      `insert into sandboxes (sandbox_id, status, created_at, holds_compute, holds_disk, ${columns})
       select 'sbx-bench' || n, 'terminated', now() - n * interval '1 second', false, false, ${columns}
         from sandboxes, generate_series(1, $2::int) n where sandbox_id = $1`,
      [sandboxId, sandboxes],
    );
    await client.query('analyze sandboxes');
  } finally {
    await client.end();
  }
}

/** Reads pages of 50 sandboxes of an account that has many. */
export async function measureListPage(
  platform: PlatformClient,
  databaseUrl: string,
  sandboxId: SandboxId,
  sandboxes: number,
  times: number,
): Promise<number[]> {
  await addEndedSandboxes(databaseUrl, sandboxId, sandboxes);
  const page = async (index: number) => {
    const { body } = await platform.request<{ sandboxes: unknown[]; pagination: { total: number } }>(
      'GET',
      `/v1/sandboxes?limit=50&page=${(index % 10) + 1}`,
    );
    if (body.data.sandboxes.length !== 50) throw new Error(`a page of ${body.data.sandboxes.length}`);
  };
  await inTurn(20, (index) => timed(() => page(index)));
  return await inTurn(times, (index) => timed(() => page(index)));
}
