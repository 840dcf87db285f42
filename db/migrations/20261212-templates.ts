import { Migration } from '@mikro-orm/migrations';

/** Templates of users: the contents of their images, and the jobs that import them. */
export class Migration20261212Templates extends Migration {
  override up(): void {
    this.addSql(`
      alter table templates add column image_blobs jsonb,
                            add column registry_password text;
      create index templates_owner on templates (owner_user_id);
      create index templates_image on templates (image) where image is not null;
      create index sandboxes_image on sandboxes (image) where holds_disk;

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
      create index import_jobs_template on import_jobs (template_id, created_at desc);
      create index import_jobs_account on import_jobs (account_id, created_at desc, job_id);
      create index import_jobs_owner on import_jobs (owner_user_id, created_at desc, job_id);
    `);
  }
}
