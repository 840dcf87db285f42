import { Migration } from '@mikro-orm/migrations';

/** Which start or resume brought up a sandbox's processes, so that late reports about earlier ones are recognised. */
export class Migration20261122SandboxRuns extends Migration {
  override up(): void {
    this.addSql('alter table sandboxes add column run integer');
  }
}
