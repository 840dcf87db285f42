import { Migration } from '@mikro-orm/migrations';

/** The seconds by which each starting sandbox of a host delays those behind it, as the host measured it. */
export class Migration20270118StartQueues extends Migration {
  override up(): void {
    this.addSql('alter table hosts add column seconds_per_start real');
  }
}
