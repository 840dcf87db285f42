import { Migration } from '@mikro-orm/migrations';

/**
 * Hosts record their measured room. Promised resources are a limit only if an operator sets one, so the capacities of a
 * host may be null.
 */
export class Migration20261125MeasuredRoom extends Migration {
  override up(): void {
    this.addSql(`
      alter table hosts
        alter column cpu_capacity drop not null,
        alter column memory_mb_capacity drop not null,
        alter column disk_gb_capacity drop not null,
        add column memory_mb_total integer,
        add column cpu_free real,
        add column memory_mb_free integer,
        add column disk_mb_free integer,
        add column short_of text[] not null default '{}',
        add column measured_at timestamptz(3);

      alter table sandboxes add column is_measured boolean not null default false;

      create table template_peaks (
        template_id text primary key,
        cpu real not null,
        memory_mb real not null,
        updated_at timestamptz(3) not null default now()
      );
    `);
  }
}
