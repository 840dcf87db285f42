import { Migration } from '@mikro-orm/migrations';

/** The number of the start or resume of a sandbox's processes, to recognise late reports about earlier ones. */
export class Migration20261122SandboxRuns extends Migration {
  override up(): void {
    this.addSql('alter table sandboxes add column run integer');
  }
}
