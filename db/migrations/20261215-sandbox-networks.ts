import { Migration } from '@mikro-orm/migrations';

/** Each host records the network of its sandboxes, so that webhooks cannot connect to it. */
export class Migration20261215SandboxNetworks extends Migration {
  override up(): void {
    this.addSql('alter table hosts add column sandbox_network text');
  }
}
