import { Migration } from '@mikro-orm/migrations';

/** Hosts are notified of images that no template has any more, and end their frozen sandboxes of these images. */
export class Migration20261214WarmPools extends Migration {
  override up(): void {
    this.addSql(`
      create function notify_of_template_image() returns trigger language plpgsql as $$
      begin
        perform pg_notify('template_images_changed', '');
        return null;
      end $$;
      create trigger template_image_gone after delete or update of image on templates
        for each statement execute function notify_of_template_image();
    `);
  }
}
