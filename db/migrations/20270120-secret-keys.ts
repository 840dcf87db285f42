import { Migration } from '@mikro-orm/migrations';

/**
 * PLATFORM_SECRET_KEY can be replaced. Former keys are stored encrypted with the newest one, because some things outlive
 * them: hashes of passwords, tokens of sandboxes, keys of webhooks, payloads of workflows. These name their key.
 */
export class Migration20270120SecretKeys extends Migration {
  override up(): void {
    this.addSql(`
      create table secret_keys (
        number integer primary key check (number > 0),
        -- Derived from the key, to recognise it.
        fingerprint text not null unique,
        -- The key, encrypted with the newest one. Null: it is the newest, and only in the settings.
        sealed_key text,
        created_at timestamptz(3) not null default now()
      )`);
    this.addSql('alter table sandboxes add column secret_key_number integer not null default 1');
    this.addSql(`
      alter table webhook_endpoints
        add column secret_key_number integer not null default 1,
        add column previous_secret_key_number integer`);
  }
}
