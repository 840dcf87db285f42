import { Migration } from '@mikro-orm/migrations';

/** Accounts, users, projects, keys, templates, hosts, sandboxes, and their dependent tables. */
export class Migration20261121Foundation extends Migration {
  override up(): void {
    this.addSql(`
      create table accounts (
        account_id text primary key,
        email text not null,
        display_name text not null,
        description text not null default '',
        status text not null default 'active' check (status in ('active', 'suspended')),
        is_verified boolean not null default false,
        plan_name text not null,
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );

      create table users (
        user_id text primary key,
        account_id text not null references accounts,
        email text not null,
        username text not null,
        display_name text not null,
        description text not null default '',
        role text not null default 'user' check (role in ('user', 'admin')),
        status text not null default 'enabled' check (status in ('enabled', 'disabled')),
        is_root_user boolean not null default false,
        email_verified boolean not null default false,
        password_hash text,
        oauth_provider text,
        oauth_provider_id text,
        avatar_url text,
        max_active_api_keys integer,
        last_login timestamptz(3),
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create unique index users_email on users (lower(email));
      create index users_account on users (account_id);

      create table projects (
        project_id text primary key,
        account_id text not null references accounts,
        owner_user_id text not null references users,
        name text not null,
        description text not null default '',
        status text not null default 'active',
        is_default boolean not null default false,
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create unique index projects_name on projects (owner_user_id, lower(name));
      create unique index projects_default on projects (owner_user_id) where is_default;
      create index projects_account on projects (account_id, created_at desc);

      create table api_keys (
        key_id text primary key,
        account_id text not null references accounts,
        user_id text not null references users,
        name text not null,
        description text not null default '',
        secret_hash text not null unique,
        prefix text not null,
        is_active boolean not null default true,
        last_used_at timestamptz(3),
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create unique index api_keys_name on api_keys (user_id, lower(name));
      create index api_keys_account on api_keys (account_id, created_at desc);

      create table templates (
        template_id text primary key,
        account_id text references accounts,
        owner_user_id text references users,
        name text not null,
        description text not null default '',
        default_cpu_count integer not null,
        default_memory_mb integer not null,
        visibility text not null check (visibility in ('private', 'account_shared', 'public')),
        template_source text not null check (template_source in ('platform_family', 'custom')),
        custom_image_source text check (custom_image_source in ('external', 'imported')),
        external_image_url text,
        external_registry_username text,
        status text not null check (status in ('pending', 'building', 'pushing', 'available', 'failed')),
        image text,
        registry_image_url text,
        registry_project text,
        registry_repository text,
        registry_tag text,
        image_size_bytes bigint,
        metadata text,
        ports jsonb not null default '[]',
        custom_command text,
        ready_command text,
        build_started_at timestamptz(3),
        push_started_at timestamptz(3),
        push_completed_at timestamptz(3),
        build_error_message text,
        last_storage_sync_at timestamptz(3),
        parent_template_id text,
        root_template_id text,
        template_document text,
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );
      create unique index templates_name on templates (coalesce(account_id, ''), name);

      create table hosts (
        host_id text primary key,
        region text not null,
        region_name text not null,
        cpu_capacity integer not null,
        memory_mb_capacity integer not null,
        disk_gb_capacity integer not null,
        lease_expires_at timestamptz(3) not null,
        created_at timestamptz(3) not null default now(),
        updated_at timestamptz(3) not null default now()
      );

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
        image text not null,
        cpu_count integer not null,
        memory_mb integer not null,
        storage_gb integer not null,
        timeout_seconds integer not null,
        timeout_from timestamptz(3),
        auto_pause boolean not null default false,
        secure boolean not null default true,
        allow_internet_access boolean not null default true,
        metadata jsonb not null default '{}',
        env_vars jsonb not null default '{}',
        custom_ports jsonb not null default '[]',
        persistence_days integer,
        status text not null check (status in ('created', 'starting', 'running', 'pausing', 'paused', 'resuming',
          'terminating', 'terminated', 'failed')),
        substatus text,
        reason text,
        failure jsonb,
        lifecycle_outcome text,
        region text not null,
        host_id text not null references hosts,
        holds_compute boolean not null default true,
        holds_disk boolean not null default true,
        agent_address text,
        agent_port integer,
        running_ms bigint not null default 0,
        paused_ms bigint not null default 0,
        phase_kind text,
        phase_since timestamptz(3),
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

      create function tell_sandbox_route_changed() returns trigger language plpgsql as $$
      begin
        perform pg_notify('sandbox_route_changed', new.sandbox_id);
        return null;
      end $$;
      create trigger sandbox_route_changed after insert or update of status, agent_address, agent_port, secure,
        custom_ports, deleted_at on sandboxes for each row execute function tell_sandbox_route_changed();

      create table events (
        event_id text primary key,
        account_id text not null,
        user_id text,
        object_id text not null,
        sequence integer not null,
        type text not null,
        data jsonb not null,
        created_at timestamptz(3) not null default now(),
        unique (object_id, sequence)
      );
      create index events_account on events (account_id, created_at desc);

      create table outbox (
        id bigserial primary key,
        workflow_type text not null,
        workflow_id text not null,
        input jsonb not null,
        attempts integer not null default 0,
        not_before timestamptz(3) not null default now(),
        created_at timestamptz(3) not null default now()
      );
      create index outbox_due on outbox (not_before, id);

      create table idempotency_keys (
        caller text not null,
        key text not null,
        request_hash text not null,
        reply_status integer,
        reply_body jsonb,
        object_id text,
        created_at timestamptz(3) not null default now(),
        primary key (caller, key)
      );
      create index idempotency_keys_age on idempotency_keys (created_at);

      create table notifications (
        id text primary key,
        account_id text not null references accounts,
        user_id text not null references users,
        title text not null,
        message text not null,
        type text not null,
        category text not null,
        is_read boolean not null default false,
        related_entity_type text,
        related_entity_id text,
        created_at timestamptz(3) not null default now()
      );
      create index notifications_user on notifications (user_id, created_at desc);
    `);
  }
}
