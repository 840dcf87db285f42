import { Migration } from '@mikro-orm/migrations';

/**
 * Users made by root users: user names are unique in an account, and gateways are notified when users are disabled or
 * enabled.
 */
export class Migration20261129Users extends Migration {
  override up(): void {
    this.addSql(`
      create unique index users_username on users (account_id, lower(username));

      create function tell_routes_of_user_changed() returns trigger language plpgsql as $$
      begin
        perform pg_notify('sandbox_route_changed', sandbox_id) from sandboxes
          where owner_user_id = new.user_id and deleted_at is null and status = 'running';
        return null;
      end $$;
      create trigger routes_of_user_changed after update of status on users for each row
        when (new.status <> old.status) execute function tell_routes_of_user_changed();
    `);
  }
}
