import { Migration } from '@mikro-orm/migrations';

/** Whether sandboxes start the ENTRYPOINT and CMD of their image. */
export class Migration20270114ImageCommands extends Migration {
  override up(): void {
    this.addSql(`
      alter table templates add column start_image_command boolean not null default true;
      -- Sandboxes that were made before keep starting without the command of their image.
      alter table sandboxes add column start_image_command boolean not null default false;
    `);
  }
}
