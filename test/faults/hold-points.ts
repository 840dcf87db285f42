import pg from 'pg';
import type { AccountId } from '../../domain/ids.ts';
import type { ProcessorMoment, TestProcessor } from '../support/payment-processor.ts';
import type { FaultyPlatform } from './faulty-platform.ts';

/** Requests of a charge to the processor. */
const calls = {
  prepare: /^POST \/v1\/payment_intents$/,
  confirm: /^POST \/v1\/payment_intents\/\w+\/confirm$/,
  read: /^GET \/v1\/payment_intents\/\w+$/,
};

/** Locks for which a statement must wait. `$1` is the account. */
const locks = {
  account: 'select 1 from accounts where account_id = $1 for no key update',
  subscription: 'select 1 from subscriptions where account_id = $1 for update',
  invoice: 'select 1 from invoices where account_id = $1 for update',
  charge: 'select 1 from payment_intents where account_id = $1 for update',
  /** The invoice's only charge. Another insert of it waits. */
  newCharge: `insert into payment_intents (payment_intent_id, account_id, amount, currency, status, intent_type, invoice_id)
    select 'held ' || invoice_id, account_id, 1, 'USD', 'canceled', 'invoice', invoice_id from invoices where account_id = $1`,
};

/** The point at which the work for an account is held. */
export interface HoldPoint {
  name: string;
  /** The processor has received a request and not executed it, or has executed it and not answered. */
  request?: { call: keyof typeof calls; moment: ProcessorMoment['when'] };
  /**
   * A statement waits for a lock. `holdStatement` takes the lock, or the processor does when it receives or has
   * executed a request.
   */
  statement?: { lock: keyof typeof locks; takenAt?: { call: keyof typeof calls; moment: ProcessorMoment['when'] } };
  /** The reply to the confirmation is lost before, so the platform reads the charge. */
  isConfirmationLost?: boolean;
}

interface Subject {
  point: HoldPoint;
  charges: Set<string>;
  /** Held requests, the latest at the end. */
  requests: { isGone(): boolean; release(): void }[];
  isOver: boolean;
  /** The processor's client library repeats a request once when its connection was cut. */
  cutsLeft: number;
  locker: pg.Client | null;
}

/** Holds the charges of many accounts, each at its own point. */
export class Holds {
  readonly #platform: FaultyPlatform;
  readonly #subjects = new Map<AccountId, Subject>();
  readonly #owners = new Map<string, AccountId>();

  constructor(processor: TestProcessor, platform: FaultyPlatform) {
    this.#platform = platform;
    processor.atRequest = (moment) => this.#meet(moment);
  }

  add(accountId: AccountId, point: HoldPoint): void {
    const cutsLeft = point.isConfirmationLost ? 2 : 0;
    this.#subjects.set(accountId, { point, charges: new Set(), requests: [], isOver: false, cutsLeft, locker: null });
  }

  /** Charges of an account at the processor. */
  listCharges(accountId: AccountId): string[] {
    return [...this.#subjects.get(accountId)!.charges];
  }

  /** Makes the next statement that needs the lock of an account's point wait. */
  async holdStatement(accountId: AccountId): Promise<void> {
    const subject = this.#subjects.get(accountId)!;
    const locker = new pg.Client({ connectionString: this.#platform.settings.DATABASE_URL });
    // A killed Postgres ends the connection.
    locker.on('error', () => {});
    await locker.connect();
    await locker.query('begin');
    await locker.query(locks[subject.point.statement!.lock], [accountId]);
    subject.locker = locker;
  }

  /** The held request or waiting statement of each account at this moment. */
  async held(): Promise<Map<AccountId, string>> {
    const lockers = [...this.#subjects.values()].flatMap(({ locker }) => locker ?? []);
    const readPid = (locker: pg.Client) => (locker as unknown as { processID: number }).processID;
    const waiting = new Map<number, string>();
    if (lockers.length > 0) {
      const rows = await this.#platform.rows<{ locker: number; query: string }>(
        `select b.locker, a.query from pg_stat_activity a, unnest(pg_blocking_pids(a.pid)) b (locker)
          where b.locker = any(?::int[])`,
        [`{${lockers.map(readPid).join(',')}}`],
      );
      for (const { locker, query } of rows) waiting.set(locker, query.replaceAll(/\s+/g, ' ').slice(0, 70));
    }
    const held = new Map<AccountId, string>();
    for (const [accountId, { point, requests, locker }] of this.#subjects) {
      const isWaiting = requests.some(({ isGone }) => !isGone());
      if (isWaiting) held.set(accountId, `${point.request!.call} ${point.request!.moment}`);
      const statement = locker && waiting.get(readPid(locker));
      if (statement) held.set(accountId, statement);
    }
    return held;
  }

  /** Releases everything and holds nothing from now on. */
  async release(): Promise<void> {
    for (const subject of this.#subjects.values()) {
      subject.isOver = true;
      for (const { release } of subject.requests) release();
      // Its transaction is rolled back. If Postgres was killed, it has ended already.
      await subject.locker?.end().catch(() => {});
    }
  }

  async #meet(moment: ProcessorMoment): Promise<'cut' | null> {
    const accountId = this.#owner(moment);
    const subject = accountId && this.#subjects.get(accountId);
    if (!subject || subject.isOver) return null;
    const { point } = subject;
    const isAt = (at: { call: keyof typeof calls; moment: string } | undefined) =>
      at !== undefined && at.moment === moment.when && calls[at.call].test(moment.name);
    if (subject.cutsLeft > 0 && isAt({ call: 'confirm', moment: 'done' })) {
      subject.cutsLeft -= 1;
      return 'cut';
    }
    if (!subject.locker && isAt(point.statement?.takenAt)) await this.holdStatement(accountId);
    if (isAt(point.request)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      subject.requests.push({ isGone: moment.isGone, release: resolve });
      await promise;
    }
    return null;
  }

  #owner({ name, body, answer }: ProcessorMoment): AccountId | null {
    const id = /^\w+ \/v1\/payment_intents\/(\w+)/.exec(name)?.[1];
    if (id) return this.#owners.get(id) ?? null;
    if (!calls.prepare.test(name)) return null;
    const accountId = new URLSearchParams(body).get('metadata[account_id]') as AccountId;
    if (answer !== null) {
      const made = JSON.parse(answer).id;
      this.#owners.set(made, accountId);
      this.#subjects.get(accountId)?.charges.add(made);
    }
    return accountId;
  }
}
