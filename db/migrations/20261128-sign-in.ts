import { Migration } from '@mikro-orm/migrations';

/** Sessions of signed-in users, links in mails, and counts that slow down password guesses. */
export class Migration20261128SignIn extends Migration {
  override up(): void {
    this.addSql(`
      create table token_keys (
        key_id text primary key,
        created_at timestamptz(3) not null default clock_timestamp()
      );
      insert into token_keys (key_id) values ('first');

      create table sessions (
        session_id text primary key,
        user_id text not null references users on delete cascade,
        key_id text not null references token_keys,
        created_at timestamptz(3) not null default now(),
        expires_at timestamptz(3) not null
      );
      create index sessions_user on sessions (user_id);
      create index sessions_expiry on sessions (expires_at);

      create table account_links (
        token_hash text primary key,
        purpose text not null,
        user_id text not null references users on delete cascade,
        proves_email boolean not null,
        created_at timestamptz(3) not null default now(),
        expires_at timestamptz(3) not null,
        ended_at timestamptz(3)
      );
      create index account_links_user on account_links (user_id);
      create index account_links_expiry on account_links (expires_at);

      create table sign_in_throttles (
        throttle_key text primary key,
        failures integer not null,
        next_at timestamptz not null,
        updated_at timestamptz not null
      );
      create index sign_in_throttles_age on sign_in_throttles (updated_at);

      create table known_addresses (
        user_id text not null references users on delete cascade,
        address_hash text not null,
        last_used_at timestamptz(3) not null,
        primary key (user_id, address_hash)
      );
      create index known_addresses_age on known_addresses (last_used_at);

      create function end_sessions_of_user() returns trigger language plpgsql as $$
      begin
        delete from sessions where user_id = new.user_id;
        delete from known_addresses where user_id = new.user_id;
        return null;
      end $$;
      create trigger sessions_of_user_end after update of status, password_hash on users for each row
        when (new.password_hash is distinct from old.password_hash or new.status <> old.status)
        execute function end_sessions_of_user();

      create function end_links_of_user() returns trigger language plpgsql as $$
      begin
        update account_links set ended_at = now()
          where user_id = new.user_id and purpose = 'password-reset' and ended_at is null;
        return null;
      end $$;
      create trigger links_of_user_end after update of status, password_hash, email on users for each row
        when (new.password_hash is distinct from old.password_hash or new.status <> old.status or new.email <> old.email)
        execute function end_links_of_user();

      create function end_sessions_of_account() returns trigger language plpgsql as $$
      begin
        delete from sessions where user_id in (select user_id from users where account_id = new.account_id);
        return null;
      end $$;
      create trigger sessions_of_account_end after update of status on accounts for each row
        when (new.status <> old.status) execute function end_sessions_of_account();

      -- Counts an attempt against each of the keys, unless one of them has to wait.
      -- Returns the seconds to wait; 0 when the attempt may go on.
      create function admit_sign_in(keys text[], free_failures integer[], longest_waits integer[],
        forgotten_after interval) returns double precision language plpgsql as $$
      declare
        moment timestamptz := clock_timestamp();
        wait double precision;
      begin
        -- What a crash of Postgres loses of these counts is little.
        perform set_config('synchronous_commit', 'off', true);
        insert into sign_in_throttles (throttle_key, failures, next_at, updated_at)
          select key, 0, moment, moment from unnest(keys) key order by key
          on conflict do nothing;
        perform 1 from sign_in_throttles where throttle_key = any(keys) order by throttle_key for update;
        moment := clock_timestamp();
        select max(extract(epoch from next_at - moment)) into wait from sign_in_throttles where throttle_key = any(keys);
        if wait > 0 then
          return wait;
        end if;
        update sign_in_throttles t
          set failures = counted.failures, updated_at = moment,
            next_at = moment + interval '1 second' *
              case when counted.failures <= policy.free then 0
                else least(policy.longest, power(2, least(counted.failures - policy.free, 20))) end
          from unnest(keys, free_failures, longest_waits) as policy (key, free, longest),
            lateral (select case when old.updated_at < moment - forgotten_after then 1 else old.failures + 1 end as failures
                       from sign_in_throttles old where old.throttle_key = policy.key) counted
          where t.throttle_key = policy.key;
        return 0;
      end $$;

      -- Takes back what admit_sign_in counted for an attempt that turned out to be right.
      -- Locks in the same order, so that neither waits for the other for ever.
      create function forgive_sign_in(pair text, others text[]) returns void language plpgsql as $$
      begin
        perform 1 from sign_in_throttles where throttle_key = pair or throttle_key = any(others)
          order by throttle_key for update;
        delete from sign_in_throttles where throttle_key = pair;
        update sign_in_throttles set failures = greatest(failures - 1, 0), next_at = clock_timestamp()
          where throttle_key = any(others);
      end $$;
    `);
  }
}
