import { Migration } from '@mikro-orm/migrations';

/** Users who sign in through an identity provider, and the states of finished sign-ins. */
export class Migration20261212Identities extends Migration {
  override up(): void {
    this.addSql(`
      create unique index users_identity on users (oauth_provider, oauth_provider_id);

      create table used_sign_in_states (
        state_hash text primary key,
        expires_at timestamptz(3) not null
      );
      create index used_sign_in_states_expiry on used_sign_in_states (expires_at);
    `);
  }
}
