import { Migration } from '@mikro-orm/migrations';

/** Templates that are made of the disks of sandboxes. */
export class Migration20261214TemplateBuilds extends Migration {
  override up(): void {
    this.addSql('alter table templates add column build_sandbox_id text;');
  }
}
