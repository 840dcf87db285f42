import { Migration } from '@mikro-orm/migrations';

/**
 * A sign-in makes two statements in addition to its argon2: these functions, whose plans each connection caches. The
 * counted attempt may be lost in a crash of Postgres. The session and its entry in the audit log may not.
 */
export class Migration20261211QuickSignIn extends Migration {
  override up(): void {
    this.addSql(`
      -- The user with an e-mail, and how long an attempt to sign in has to wait. Counts the attempt as failed when it need
      -- not wait. Of the keys, all but the first count only for an address that the user has not signed in from lately.
      create function begin_sign_in(given_email text, given_address_hash text, known_for interval,
        keys text[], free_failures integer[], longest_waits integer[], forgotten_after interval)
        returns table (wait double precision, user_id text, password_hash text, user_status text, account_status text)
        language plpgsql as $$
      #variable_conflict use_column
      declare
        found_user users%rowtype;
        counted integer := cardinality(keys);
      begin
        select u.* into found_user from users u where lower(u.email) = lower(given_email);
        select a.status into account_status from accounts a where a.account_id = found_user.account_id;
        if exists (select from known_addresses k where k.user_id = found_user.user_id
            and k.address_hash = given_address_hash and k.last_used_at > now() - known_for) then
          counted := 1;
        end if;
        wait := admit_sign_in(keys[1:counted], free_failures[1:counted], longest_waits[1:counted], forgotten_after);
        user_id := found_user.user_id;
        password_hash := found_user.password_hash;
        user_status := found_user.status;
        return next;
      end $$;

      -- Begins a session of a user whose password is still the one that was checked, forgives the attempt, and records it.
      -- No row: the user may no longer sign in.
      create function begin_session(given_session_id text, given_user_id text, given_password_hash text,
        lasts interval, given_address_hash text, pair_key text, other_keys text[],
        given_event_id text, given_address text, given_request_id text)
        returns table (key_id text, started_at timestamptz, expires_at timestamptz) language plpgsql as $$
      #variable_conflict use_column
      declare
        of_account text;
      begin
        -- Locked, so that what ends sessions has either ended before this one or ends it. The account first, as elsewhere.
        select a.account_id into of_account from accounts a
          where a.account_id = (select u.account_id from users u where u.user_id = given_user_id) and a.status = 'active'
          for share;
        if not found then
          return;
        end if;
        perform 1 from users u
          where u.user_id = given_user_id and u.password_hash is not distinct from given_password_hash
            and u.status = 'enabled'
          for no key update;
        if not found then
          return;
        end if;
        select t.key_id into key_id from token_keys t order by t.created_at desc limit 1;
        started_at := now();
        expires_at := date_trunc('second', now()) + lasts;
        insert into sessions (session_id, user_id, key_id, created_at, expires_at)
          values (given_session_id, given_user_id, begin_session.key_id, started_at, begin_session.expires_at);
        update users set last_login = now() where user_id = given_user_id;
        insert into known_addresses (user_id, address_hash, last_used_at)
          values (given_user_id, given_address_hash, now())
          on conflict (user_id, address_hash) do update set last_used_at = excluded.last_used_at;
        if given_event_id is not null then
          insert into audit_events (event_id, account_id, actor_user_id, actor_session_id, address, request_id, action,
              object_id)
            values (given_event_id, of_account, given_user_id, given_session_id, given_address, given_request_id, 'signIn',
              given_user_id);
        end if;
        perform forgive_sign_in(pair_key, other_keys);
        return next;
      end $$;
    `);
  }
}
