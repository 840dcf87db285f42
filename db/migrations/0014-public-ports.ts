import { Migration } from '@mikro-orm/migrations';

/** `sandboxes.public_ports`: undeclared ports are public, except those of the agent. */
export class Migration0014PublicPorts extends Migration {
  override up(): void {
    this.addSql('alter table sandboxes add column public_ports boolean not null default false');
  }
}
