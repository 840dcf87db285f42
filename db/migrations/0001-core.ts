import { Migration } from '@mikro-orm/migrations';

/** Events of objects, and the outbox of workflow starts and signals. */
export class Migration0001Core extends Migration {
  override up(): void {
    this.addSql(events);
    this.addSql(outbox);
  }
}

/** `event_sequences` numbers the events of objects that have no counter of their own. */
const events = `
  create table events (
    event_id text primary key,
    account_id text not null,
    user_id text,
    object_id text not null,
    sequence integer not null,
    type text not null,
    data jsonb not null,
    created_at timestamptz(3) not null default now(),
    unique (object_id, sequence)
  );
  create index events_account on events (account_id, created_at desc);
  create index events_age on events (created_at);

  create table event_sequences (
    object_id text primary key,
    last integer not null
  );
`;

/** An entry without a signal starts a workflow. An entry that Temporal refuses too often is a dead letter. */
const outbox = `
  create table outbox (
    id bigserial primary key,
    workflow_type text not null,
    workflow_id text not null,
    signal text,
    input jsonb not null,
    attempts integer not null default 0,
    refusals integer not null default 0,
    last_error text,
    not_before timestamptz(3) not null default now(),
    dead_at timestamptz(3),
    created_at timestamptz(3) not null default now()
  );
  create index outbox_due on outbox (not_before, id) where dead_at is null;
  create index outbox_workflow on outbox (workflow_id);
`;
