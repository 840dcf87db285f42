import { Migration } from '@mikro-orm/migrations';

/** Templates, the jobs that import their images, and the images in the platform's registry and on hosts. */
export class Migration0004Templates extends Migration {
  override up(): void {
    this.addSql(templates);
    this.addSql(imports);
    this.addSql(registryImages);
    this.addSql(hostImages);
  }
}

const templates = `
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
    registry_password text,
    status text not null check (status in ('pending', 'building', 'pushing', 'available', 'failed')),
    image text,
    registry_image_url text,
    registry_project text,
    registry_repository text,
    registry_tag text,
    image_size_bytes bigint,
    image_blobs jsonb,
    metadata text,
    ports jsonb not null default '[]',
    custom_command text,
    ready_command text,
    -- Whether sandboxes start the ENTRYPOINT and CMD of the image.
    start_image_command boolean not null default true,
    -- The template is made of the disk of this sandbox.
    build_sandbox_id text,
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
  create index templates_owner on templates (owner_user_id);
  create index templates_image on templates (image) where image is not null;
`;

const imports = `
  create table import_jobs (
    job_id text primary key,
    template_id text not null references templates on delete cascade,
    account_id text not null references accounts,
    owner_user_id text not null references users on delete cascade,
    status text not null check (status in ('pending', 'running', 'completed', 'failed', 'cancelled')),
    progress_percentage integer not null default 0 check (progress_percentage between 0 and 100),
    external_image_url text not null,
    registry_image_url text not null,
    registry_path text not null,
    last_log_message text,
    error_message text,
    skopeo_logs text not null default '',
    retry_count integer not null default 0,
    max_retries integer not null,
    started_at timestamptz(3),
    completed_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create unique index import_jobs_active on import_jobs (template_id) where status in ('pending', 'running');
  create index import_jobs_active_path on import_jobs (registry_path) where status in ('pending', 'running');
  create index import_jobs_template on import_jobs (template_id, created_at desc);
  create index import_jobs_account on import_jobs (account_id, created_at desc, job_id);
  create index import_jobs_owner on import_jobs (owner_user_id, created_at desc, job_id);

  create table import_leftovers (
    job_id text primary key,
    account_id text not null,
    bytes bigint not null,
    sent_at timestamptz(3) not null default now()
  );
  comment on table import_leftovers is
    'what imports have sent to the registry and no template has; kept when the job is deleted with its template';
  create index import_leftovers_account on import_leftovers (account_id);
`;

/** A trigger remembers the images of templates, so that the platform can remove them when no template has them. */
const registryImages = `
  create table registry_images (
    path text not null,
    digest text not null,
    held_until timestamptz(3),
    removing_until timestamptz(3),
    unused_since timestamptz(3),
    primary key (path, digest)
  );
  comment on table registry_images is
    'held_until: someone is about to name the image, so it is not removed; removing_until: it is being removed now';
  create index registry_images_unused on registry_images (unused_since) where unused_since is not null;

  create table registry_sweeps (
    only_row boolean primary key default true check (only_row),
    closed_until timestamptz(3),
    wanted_since timestamptz(3),
    last_swept_at timestamptz(3) not null default now(),
    removed_since integer not null default 0
  );
  comment on table registry_sweeps is
    'closed_until: nobody begins to write to the registry; removed_since: images that were removed since the last sweep';
  insert into registry_sweeps default values;

  -- The two parts of registry:<path>@<digest>. No row for another image.
  create function image_parts(image text) returns table (path text, digest text) language sql immutable as
    $$ select m[1], m[2] from regexp_matches(image, '^registry:([^@]+)@(sha256:[0-9a-f]{64})$') m $$;

  create function remember_template_image() returns trigger language plpgsql as $$
  begin
    insert into registry_images (path, digest) select path, digest from image_parts(new.image)
      on conflict (path, digest) do update set unused_since = null;
    return null;
  end $$;
  create trigger templates_remember_image after insert or update of image on templates
    for each row when (new.image like 'registry:%') execute function remember_template_image();
`;

/** Built-in images that hosts make, and the notification on which hosts end frozen sandboxes of removed images. */
const hostImages = `
  -- The status of built-in templates follows from these rows.
  create table builtin_images (
    -- As in templates: builtin:<template>.
    image text not null,
    host_id text not null references hosts on delete cascade,
    status text not null check (status in ('building', 'available', 'failed')),
    -- The public reason if it failed.
    message text,
    changed_at timestamptz(3) not null default now(),
    primary key (image, host_id)
  );

  create function notify_of_template_image() returns trigger language plpgsql as $$
  begin
    perform pg_notify('template_images_changed', '');
    return null;
  end $$;
  create trigger template_image_gone after delete or update of image on templates
    for each statement execute function notify_of_template_image();
`;
