import { Migration } from '@mikro-orm/migrations';

/** UDP ports: which of its host's leads to which of a sandbox's, and what a host has to give. */
export class Migration20261122Ports extends Migration {
  override up(): void {
    this.addSql(`
      alter table hosts
        add column public_address text,
        add column udp_port_first integer,
        add column udp_port_last integer;
      alter table sandboxes
        add column udp_host_ports jsonb not null default '{}';
    `);
  }
}
