import { Migration } from '@mikro-orm/migrations';

/**
 * A sign-in first reads the user and counts the attempt (`admit_sign_in`) while argon2 runs, so that the count does not
 * delay the sign-in.
 */
export class Migration20261218CountedSignIns extends Migration {
  override up(): void {
    this.addSql(`
      drop function begin_sign_in;

      -- The user with an e-mail, and how long an attempt to sign in has to wait. Of the keys, all but the first count only
      -- for an address that the user has not signed in from lately.
      create function find_sign_in(given_email text, given_address_hash text, known_for interval, keys text[])
        returns table (wait double precision, is_known_address boolean, user_id text, password_hash text, user_status text,
          account_status text)
        language plpgsql stable as $$
      #variable_conflict use_column
      begin
        select u.user_id, u.password_hash, u.status, a.status
          into find_sign_in.user_id, find_sign_in.password_hash, find_sign_in.user_status, find_sign_in.account_status
          from users u join accounts a on a.account_id = u.account_id where lower(u.email) = lower(given_email);
        is_known_address := exists (select from known_addresses k where k.user_id = find_sign_in.user_id
          and k.address_hash = given_address_hash and k.last_used_at > now() - known_for);
        wait := (select max(extract(epoch from t.next_at - clock_timestamp())) from sign_in_throttles t
          where t.throttle_key = any(keys[1:case when is_known_address then 1 else cardinality(keys) end]));
        return next;
      end $$;
    `);
  }
}
