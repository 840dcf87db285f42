import { Migration } from '@mikro-orm/migrations';

/** Sandboxes, and the notifications of changes of their routes. */
export class Migration0005Sandboxes extends Migration {
  override up(): void {
    this.addSql(sandboxes);
    this.addSql(routes);
  }
}

const sandboxes = `
  create table sandboxes (
    sandbox_id text primary key,
    account_id text not null references accounts,
    owner_user_id text not null references users,
    project_id text not null references projects,
    name text not null,
    description text not null default '',
    template_id text not null,
    template_name text not null,
    template_source text not null,
    template_ports jsonb not null default '[]',
    template_custom_command text,
    template_ready_command text,
    start_image_command boolean not null default false,
    image text not null,
    cpu_count integer not null,
    memory_mb integer not null,
    storage_gb integer not null,
    -- The rates at which the sandbox may read and write its disk. Null: no limit.
    disk_rates jsonb,
    timeout_seconds integer not null,
    timeout_from timestamptz(3),
    auto_pause boolean not null default false,
    secure boolean not null default true,
    secret_key_number integer not null default 1,
    allow_internet_access boolean not null default true,
    metadata jsonb not null default '{}',
    env_vars jsonb not null default '{}',
    -- Mounts, without their credentials.
    object_storage jsonb not null default '[]',
    -- The sandbox's own s3fs mounts its buckets.
    direct_mount boolean not null default false,
    s3fs_path text not null default '',
    custom_ports jsonb not null default '[]',
    udp_host_ports jsonb not null default '{}',
    persistence_days integer,
    status text not null check (status in ('created', 'starting', 'running', 'pausing', 'paused', 'resuming',
      'terminating', 'terminated', 'failed')),
    substatus text,
    reason text,
    failure jsonb,
    lifecycle_outcome text,
    -- The number of the start or resume of the processes, to recognise late reports about earlier ones.
    run integer,
    region text not null,
    region_forced boolean not null default false,
    -- The order of regions for a second placement.
    nearest_regions jsonb not null default '[]',
    host_id text not null references hosts,
    holds_compute boolean not null default true,
    holds_disk boolean not null default true,
    is_measured boolean not null default false,
    agent_address text,
    agent_port integer,
    running_ms bigint not null default 0,
    paused_ms bigint not null default 0,
    phase_kind text,
    phase_since timestamptz(3),
    metered_until timestamptz(3),
    started_at timestamptz(3),
    stopped_at timestamptz(3),
    ended_at timestamptz(3),
    pausing_at timestamptz(3),
    paused_at timestamptz(3),
    resumed_at timestamptz(3),
    last_accessed_at timestamptz(3),
    deleted_at timestamptz(3),
    event_sequence integer not null default 0,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create index sandboxes_account on sandboxes (account_id, created_at desc, sandbox_id) where deleted_at is null;
  create index sandboxes_owner on sandboxes (owner_user_id, created_at desc, sandbox_id) where deleted_at is null;
  create index sandboxes_project on sandboxes (project_id, created_at desc, sandbox_id) where deleted_at is null;
  create index sandboxes_concurrent on sandboxes (account_id)
    where status in ('created', 'starting', 'running', 'pausing', 'resuming');
  create index sandboxes_held on sandboxes (host_id) where holds_compute or holds_disk;
  create index sandboxes_template on sandboxes (template_id) where status not in ('terminated', 'failed');
  create index sandboxes_image on sandboxes (image) where holds_disk;
  create index sandboxes_metered on sandboxes (account_id) where phase_kind is not null;
  create index sandboxes_ended on sandboxes (coalesce(deleted_at, ended_at))
    where status in ('terminated', 'failed') and not holds_compute and not holds_disk;
`;

/** Gateways keep routes in memory and drop one when they are notified. A disabled user's sandboxes lose their routes. */
const routes = `
  create function tell_sandbox_route_changed() returns trigger language plpgsql as $$
  begin
    perform pg_notify('sandbox_route_changed', new.sandbox_id);
    return null;
  end $$;
  create trigger sandbox_route_changed after insert or update of status, agent_address, agent_port, secure,
    custom_ports, deleted_at on sandboxes for each row execute function tell_sandbox_route_changed();

  create function tell_routes_of_user_changed() returns trigger language plpgsql as $$
  begin
    perform pg_notify('sandbox_route_changed', sandbox_id) from sandboxes
      where owner_user_id = new.user_id and deleted_at is null and status = 'running';
    return null;
  end $$;
  create trigger routes_of_user_changed after update of status on users for each row
    when (new.status <> old.status) execute function tell_routes_of_user_changed();
`;
