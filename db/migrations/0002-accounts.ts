import { Migration } from '@mikro-orm/migrations';

/** Accounts with their users, projects and keys; sign-in; notifications; the audit log. */
export class Migration0002Accounts extends Migration {
  override up(): void {
    this.addSql(accounts);
    this.addSql(emailChanges);
    this.addSql(idempotencyKeys);
    this.addSql(notifications);
    this.addSql(auditEvents);
    this.addSql(sessions);
    this.addSql(endOfSessions);
    this.addSql(signInAttempts);
    this.addSql(signIns);
  }
}

const accounts = `
  create table accounts (
    account_id text primary key,
    email text not null,
    display_name text not null,
    description text not null default '',
    status text not null default 'active' check (status in ('active', 'suspended')),
    is_verified boolean not null default false,
    plan_name text not null,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );

  create table users (
    user_id text primary key,
    account_id text not null references accounts,
    email text not null,
    username text not null,
    display_name text not null,
    description text not null default '',
    role text not null default 'user' check (role in ('user', 'admin')),
    status text not null default 'enabled' check (status in ('enabled', 'disabled')),
    is_root_user boolean not null default false,
    email_verified boolean not null default false,
    password_hash text,
    oauth_provider text,
    oauth_provider_id text,
    avatar_url text,
    max_active_api_keys integer,
    last_login timestamptz(3),
    -- The deletion of the user began. At its end, the row is removed.
    deletion_requested_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create unique index users_email on users (lower(email));
  create unique index users_username on users (account_id, lower(username));
  create unique index users_identity on users (oauth_provider, oauth_provider_id);
  create index users_account on users (account_id);

  create table projects (
    project_id text primary key,
    account_id text not null references accounts,
    owner_user_id text not null references users,
    name text not null,
    description text not null default '',
    status text not null default 'active',
    is_default boolean not null default false,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create unique index projects_name on projects (owner_user_id, lower(name));
  create unique index projects_default on projects (owner_user_id) where is_default;
  create index projects_account on projects (account_id, created_at desc);

  create table api_keys (
    key_id text primary key,
    account_id text not null references accounts,
    user_id text not null references users,
    name text not null,
    description text not null default '',
    secret_hash text not null unique,
    prefix text not null,
    is_active boolean not null default true,
    last_used_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create unique index api_keys_name on api_keys (user_id, lower(name));
  create index api_keys_account on api_keys (account_id, created_at desc);
`;

/** Both addresses confirm a change of an account's e-mail. */
const emailChanges = `
  create table email_changes (
    change_id text primary key,
    account_id text not null references accounts,
    requested_by text not null,
    current_email text not null,
    new_email text not null,
    status text not null default 'pending' check (status in ('pending', 'completed', 'expired', 'cleared')),
    current_token_hash text unique,
    new_token_hash text unique,
    current_confirmed_at timestamptz(3),
    new_confirmed_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    ended_at timestamptz(3)
  );
  create unique index email_changes_pending on email_changes (account_id) where status = 'pending';
  create index email_changes_account on email_changes (account_id, created_at desc);
  create index email_changes_age on email_changes (created_at);
`;

const idempotencyKeys = `
  create table idempotency_keys (
    caller text not null,
    key text not null,
    request_hash text not null,
    reply_status integer,
    reply_body jsonb,
    object_id text,
    created_at timestamptz(3) not null default now(),
    primary key (caller, key)
  );
  create index idempotency_keys_age on idempotency_keys (created_at);
  create index idempotency_keys_caller on idempotency_keys (caller, created_at desc);
`;

const notifications = `
  create table notifications (
    id text primary key,
    account_id text not null references accounts,
    user_id text not null references users,
    title text not null,
    message text not null,
    type text not null,
    category text not null,
    is_read boolean not null default false,
    related_entity_type text,
    related_entity_id text,
    created_at timestamptz(3) not null default now()
  );
  create index notifications_user on notifications (user_id, created_at desc);
  create index notifications_account on notifications (account_id, created_at desc);
  create index notifications_age on notifications (created_at);
  create index notifications_unread on notifications (user_id) where not is_read;
`;

/**
 * Rows can be added and read. No row can be changed, and none can be removed within a year. The runtime role may not
 * delete them, so the purge is a function that runs as the owner. An operator's command may concern no account.
 */
const auditEvents = `
  create table audit_events (
    event_id text primary key,
    account_id text references accounts,
    actor_user_id text,
    actor_key_id text,
    actor_session_id text,
    address text not null,
    request_id text not null,
    action text not null,
    object_id text,
    before jsonb,
    after jsonb,
    created_at timestamptz(3) not null default clock_timestamp()
  );
  create index audit_events_account on audit_events (account_id, created_at desc, event_id);
  create index audit_events_actor on audit_events (account_id, actor_user_id, created_at desc);
  create index audit_events_object on audit_events (account_id, object_id, created_at desc);
  create index audit_events_age on audit_events (created_at);

  create function keep_audit_events() returns trigger language plpgsql as $$
  begin
    if tg_op = 'DELETE' and old.created_at < clock_timestamp() - interval '365 days' then
      return old;
    end if;
    raise exception 'audit events are kept as they are' using errcode = 'insufficient_privilege';
  end $$;
  create trigger audit_events_kept before update or delete on audit_events for each row
    execute function keep_audit_events();
  create trigger audit_events_not_truncated before truncate on audit_events for each statement
    execute function keep_audit_events();

  -- Removes some events that are older than a year. The caller cannot choose which.
  create function purge_audit_events(at_once integer) returns integer language plpgsql security definer
    set search_path = public, pg_temp as $$
  declare
    purged integer;
  begin
    delete from audit_events where ctid = any(array(
      select ctid from audit_events where created_at < clock_timestamp() - interval '365 days 1 hour' limit at_once));
    get diagnostics purged = row_count;
    return purged;
  end $$;
`;

/** Sessions of signed-in users, links in mails, known addresses, and states of sign-ins through an identity provider. */
const sessions = `
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

  -- Addresses from which a user has signed in.
  create table known_addresses (
    user_id text not null references users on delete cascade,
    address_hash text not null,
    last_used_at timestamptz(3) not null,
    primary key (user_id, address_hash)
  );
  create index known_addresses_age on known_addresses (last_used_at);

  create table used_sign_in_states (
    state_hash text primary key,
    expires_at timestamptz(3) not null
  );
  create index used_sign_in_states_expiry on used_sign_in_states (expires_at);
`;

/** A change of a password or of a status ends sessions in the same transaction, regardless of who makes the change. */
const endOfSessions = `
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
`;

/**
 * Counts that slow down password guesses. One statement counts an attempt and decides whether it must wait, so that
 * concurrent guesses cannot pass together.
 */
const signInAttempts = `
  create table sign_in_throttles (
    throttle_key text primary key,
    failures integer not null,
    next_at timestamptz not null,
    updated_at timestamptz not null
  );
  create index sign_in_throttles_age on sign_in_throttles (updated_at);

  -- Counts an attempt against each key, unless one of the keys has to wait.
  -- Returns the seconds to wait; 0 if the attempt may continue.
  create function admit_sign_in(keys text[], free_failures integer[], longest_waits integer[],
    forgotten_after interval) returns double precision language plpgsql as $$
  declare
    moment timestamptz := clock_timestamp();
    wait double precision;
  begin
    -- A crash of Postgres may lose some counts. Waiting for the disk would delay each attempt.
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

  -- Takes back the counts of admit_sign_in for an attempt with the right password.
  -- Locks the rows in the same order as admit_sign_in, so that the two cannot deadlock.
  create function forgive_sign_in(pair text, others text[]) returns void language plpgsql as $$
  begin
    perform 1 from sign_in_throttles where throttle_key = pair or throttle_key = any(others)
      order by throttle_key for update;
    delete from sign_in_throttles where throttle_key = pair;
    update sign_in_throttles set failures = greatest(failures - 1, 0), next_at = clock_timestamp()
      where throttle_key = any(others);
  end $$;
`;

/** A sign-in makes two statements in addition to argon2. They are functions, because each connection caches their plans. */
const signIns = `
  -- The user with an e-mail, and how long an attempt to sign in has to wait. The first key counts for every address,
  -- the others only for an address that the user has not signed in from lately.
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

  -- Begins a session of a user whose password is still the one that was checked, forgives the attempt, and records it.
  -- Returns no row if the user may no longer sign in.
  create function begin_session(given_session_id text, given_user_id text, given_password_hash text,
    lasts interval, given_address_hash text, pair_key text, other_keys text[],
    given_event_id text, given_address text, given_request_id text)
    returns table (key_id text, started_at timestamptz, expires_at timestamptz) language plpgsql as $$
  #variable_conflict use_column
  declare
    of_account text;
  begin
    -- Lock both rows, so that a concurrent end of the user's sessions either is finished or ends this session too.
    -- The account is locked first, as elsewhere.
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
`;
