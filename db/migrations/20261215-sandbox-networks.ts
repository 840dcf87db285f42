import { Migration } from '@mikro-orm/migrations';

/** Each host records the network of its sandboxes, so that webhooks do not lead there. */
export class Migration20261215SandboxNetworks extends Migration {
  override up(): void {
    this.addSql('alter table hosts add column sandbox_network text');
  }
}
