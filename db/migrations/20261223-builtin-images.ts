import { Migration } from '@mikro-orm/migrations';

/** The state of each host's own images. The status of built-in templates follows from it. */
export class Migration20261223BuiltinImages extends Migration {
  override up(): void {
    this.addSql(`
      create table builtin_images (
        -- As in templates: builtin:<template>.
        image text not null,
        host_id text not null references hosts on delete cascade,
        status text not null check (status in ('building', 'available', 'failed')),
        -- With failed: why, for everybody.
        message text,
        changed_at timestamptz(3) not null default now(),
        primary key (image, host_id)
      );
    `);
  }
}
