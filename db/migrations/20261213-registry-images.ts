import { Migration } from '@mikro-orm/migrations';

/** Images in the platform's registry: those of templates, and those found by reading the registry. */
export class Migration20261213RegistryImages extends Migration {
  override up(): void {
    this.addSql(`
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
      create index import_jobs_active_path on import_jobs (registry_path) where status in ('pending', 'running');

      create function image_parts(image text) returns table (path text, digest text) language sql immutable as
        $$ select m[1], m[2] from regexp_matches(image, '^registry:([^@]+)@(sha256:[0-9a-f]{64})$') m $$;

      insert into registry_images (path, digest)
        select path, digest from templates, image_parts(image)
        union select path, digest from sandboxes, image_parts(image) where holds_disk;

      create function remember_template_image() returns trigger language plpgsql as $$
      begin
        insert into registry_images (path, digest) select path, digest from image_parts(new.image)
          on conflict (path, digest) do update set unused_since = null;
        return null;
      end $$;
      create trigger templates_remember_image after insert or update of image on templates
        for each row when (new.image like 'registry:%') execute function remember_template_image();

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
    `);
  }
}
