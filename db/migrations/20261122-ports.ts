import { Migration } from '@mikro-orm/migrations';

/** UDP ports: the mapping of a host's ports to a sandbox's ports, and the range that a host offers. */
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
