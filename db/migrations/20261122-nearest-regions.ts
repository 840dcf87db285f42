import { Migration } from '@mikro-orm/migrations';

/** The order of regions in which a sandbox was placed, for a second placement. */
export class Migration20261122NearestRegions extends Migration {
  override up(): void {
    this.addSql(`alter table sandboxes add column nearest_regions jsonb not null default '[]'`);
    this.addSql(`
      update sandboxes set nearest_regions = jsonb_build_array(region) where status in ('created', 'starting')
    `);
  }
}
