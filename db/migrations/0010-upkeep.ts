import { Migration } from '@mikro-orm/migrations';

/**
 * PLATFORM_SECRET_KEY can be replaced. Former keys are stored encrypted with the newest one, because some things outlive
 * them: hashes of passwords, tokens of sandboxes, keys of webhooks, payloads of workflows. These name their key.
 */
export class Migration0010Upkeep extends Migration {
  override up(): void {
    this.addSql(secretKeys);
  }
}

const secretKeys = `
  create table secret_keys (
    number integer primary key check (number > 0),
    -- Derived from the key, to recognise it.
    fingerprint text not null unique,
    -- The key, encrypted with the newest one. Null: this is the newest key, which only the settings contain.
    sealed_key text,
    created_at timestamptz(3) not null default now()
  );
`;
