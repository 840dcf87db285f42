import { Migration } from '@mikro-orm/migrations';

/** Hosts with their leases and their measured room, and the certificates of last hops. */
export class Migration0003Hosts extends Migration {
  override up(): void {
    this.addSql(hosts);
    this.addSql(lastHops);
  }
}

/** The capacities are null unless an operator limits the sum of the sizes of a host's sandboxes. */
const hosts = `
  create table hosts (
    host_id text primary key,
    region text not null,
    region_name text not null,
    cpu_capacity integer,
    memory_mb_capacity integer,
    disk_gb_capacity integer,
    lease_expires_at timestamptz(3) not null,
    away_until timestamptz(3),
    lost_at timestamptz(3),
    -- While set, the host takes no sandboxes.
    draining_since timestamptz(3),
    -- The measured room.
    memory_mb_total integer,
    cpu_free real,
    memory_mb_free integer,
    disk_mb_free integer,
    short_of text[] not null default '{}',
    full_disk text,
    -- The seconds by which each starting sandbox delays those behind it.
    seconds_per_start real,
    measured_at timestamptz(3),
    bandwidth_mbps integer,
    public_address text,
    udp_port_first integer,
    udp_port_last integer,
    -- Webhooks cannot connect to this network.
    sandbox_network text,
    -- Other machines reach sandboxes at this address. Null: by routes into the sandbox network.
    last_hop_address text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );

  -- The expected use of a template's sandboxes.
  create table template_peaks (
    template_id text primary key,
    cpu real not null,
    memory_mb real not null,
    updated_at timestamptz(3) not null default now()
  );
`;

/** Certificates are requested and issued through the table. Revoked identities stay revoked. */
const lastHops = `
  create table last_hop_certificates (
    certificate_id uuid primary key default gen_random_uuid(),
    role text not null check (role in ('host', 'gateway')),
    name text not null check (length(name) between 1 and 128),
    request text not null check (length(request) <= 4096),
    proof text not null check (length(proof) <= 128),
    requested_at timestamptz(3) not null default now(),
    certificate text,
    expires_at timestamptz(3),
    refusal text
  );
  create index last_hop_certificates_requested on last_hop_certificates (requested_at);

  create table last_hop_revocations (
    role text not null check (role in ('host', 'gateway')),
    name text not null check (length(name) between 1 and 128),
    revoked_at timestamptz(3) not null default now(),
    primary key (role, name)
  );
`;
