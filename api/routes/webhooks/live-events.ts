import type { Logger } from 'pino';
import { readStreamRights, type StreamRights } from '../../../db/accounts/identities.ts';
import {
  maxRecentEvents,
  type RecentEvent,
  readRecentEvents,
  readRecentEventsOfAll,
  recentSeconds,
} from '../../../db/core/recent-events.ts';
import type { Scope } from '../../../db/core/scope.ts';
import type { Orm } from '../../../db/orm.ts';
import { BoundedCounts } from '../../../domain/bounded-counts.ts';
import { AppError } from '../../../domain/errors.ts';
import type { AccountId } from '../../../domain/ids.ts';
import { keepaliveFrame, within } from '../../event-streams.ts';

const pollMs = 1000;
/** Streams of one process. A browser has one for each tab. */
const streamsPerUser = 16;
const streamsPerAccount = 256;
/** If more events wait for a reader, it gets one event `many` in their place. */
const maxWaiting = 100;

/** A stream and the rights with which it was opened. */
export interface EventReader {
  scope: Scope;
  credentialId: string;
  rights: StreamRights;
  waiting: WaitingEvents;
}

/** The events that wait for one reader. Its memory is bounded, however slowly the reader reads. */
export class WaitingEvents {
  #events: RecentEvent[] = [];
  #areMany = false;
  #hasEnded = false;
  #wake = () => {};

  add(events: readonly RecentEvent[]): void {
    if (events.length === 0) return;
    if (this.#areMany || this.#events.length + events.length > maxWaiting) this.addMany();
    else {
      this.#events.push(...events);
      this.#wake();
    }
  }

  /** The reader has to read everything again, because events are left out. */
  addMany(): void {
    this.#events = [];
    this.#areMany = true;
    this.#wake();
  }

  end(): void {
    this.#hasEnded = true;
    this.#wake();
  }

  /** The stream of one reader, from `ready` until it is ended or `signal` is aborted. */
  async *frames(options: { keepaliveMs: number; signal: AbortSignal }): AsyncGenerator<Buffer> {
    yield readyFrame;
    while (!this.#hasEnded && !options.signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      const frames = this.#take();
      if (frames) yield frames;
      else if ((await within(woken, options.keepaliveMs, options.signal)) === 'silence') yield keepaliveFrame;
    }
  }

  #take(): Buffer | null {
    const frames = this.#areMany ? manyFrame : Buffer.from(this.#events.map(formatEvent).join(''));
    this.#events = [];
    this.#areMany = false;
    return frames.length > 0 ? frames : null;
  }
}

const readyFrame = Buffer.from('event: ready\ndata: {}\n\n');
const manyFrame = Buffer.from('event: many\ndata: {}\n\n');

/** The fields of an event's data that tell what it is about. */
const shown = [
  ...['sandbox_id', 'status', 'reason', 'project_id', 'template_id', 'run_id'],
  ...['payment_intent_id', 'payment_method_id', 'invoice_id', 'subscription_id', 'budget_id'],
];

function formatEvent({ eventId, type, objectId, createdAt, data }: RecentEvent): string {
  const fields = shown.flatMap((name) => (typeof data[name] === 'string' ? [[name, data[name]]] : []));
  const body = { event_id: eventId, type, object_id: objectId, created_at: createdAt, ...Object.fromEntries(fields) };
  return `id: ${eventId}\nevent: ${type}\ndata: ${JSON.stringify(body)}\n\n`;
}

/** The rows that are read for a reader: those of an account, or of all. */
type Source = AccountId | 'everything';

/**
 * Brings new events to the open streams of this process. While streams are open, it reads the recent events of their
 * accounts once a second, so that nothing is done when an event is recorded.
 */
export class LiveEvents {
  readonly #orm: Orm;
  readonly #logger: Logger;
  readonly #ofUsers = new BoundedCounts(streamsPerUser, 'event-streams-of-user');
  readonly #ofAccounts = new BoundedCounts(streamsPerAccount, 'event-streams-of-account');
  readonly #readers = new Set<EventReader>();
  /** The recent events that the readers of a source have. */
  readonly #seen = new Map<Source, ReadonlySet<string>>();
  /** The readers that the last reading has served. */
  #served: ReadonlySet<EventReader> = new Set();
  #readMs = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor({ orm, logger }: { orm: Orm; logger: Logger }) {
    this.#orm = orm;
    this.#logger = logger;
  }

  /**
   * Counts a stream. @returns a function that removes it from the counts @throws {AppError}
   * `event_stream_limit_reached`
   */
  admit({ userId, accountId }: { userId: string; accountId: string }): () => void {
    if (!this.#ofUsers.tryAdd(userId)) {
      throw new AppError('event_stream_limit_reached', 'You have too many streams of events open; close one of them');
    }
    if (!this.#ofAccounts.tryAdd(accountId)) {
      this.#ofUsers.remove(userId);
      throw new AppError('event_stream_limit_reached', 'Your account has too many streams of events open');
    }
    return () => {
      this.#ofUsers.remove(userId);
      this.#ofAccounts.remove(accountId);
    };
  }

  /** Brings events to a reader from now on. @returns a function that ends that */
  watch(reader: EventReader): () => void {
    this.#readers.add(reader);
    this.#timer ??= setTimeout(() => this.#poll(), pollMs).unref();
    return () => this.#readers.delete(reader);
  }

  async #poll(): Promise<void> {
    const readers = new Set(this.#readers);
    try {
      if (readers.size > 0) await this.#serve(readers);
    } catch (error) {
      this.#logger.warn({ err: error }, 'new events could not be read for the open streams');
    }
    this.#timer = this.#readers.size > 0 ? setTimeout(() => this.#poll(), pollMs).unref() : null;
  }

  async #serve(readers: ReadonlySet<EventReader>): Promise<void> {
    const startedMs = performance.now();
    const { em } = this.#orm;
    const sources = new Set([...readers].map(({ scope }) => sourceOf(scope)));
    const accountIds = [...sources].filter((source) => source !== 'everything');
    const [rights, ofAccounts, ofAll] = await Promise.all([
      readStreamRights(em, [...new Set([...readers].map(({ credentialId }) => credentialId))]),
      accountIds.length > 0 ? readRecentEvents(em, accountIds) : [],
      sources.has('everything') ? readRecentEventsOfAll(em) : [],
    ]);
    // After a gap, for example while the database was away, events may have ceased to be recent before they were read.
    const isGap = startedMs - this.#readMs > (recentSeconds * 1000) / 2;
    const bySource = Map.groupBy(ofAccounts, ({ accountId }): Source => accountId).set('everything', ofAll);
    const ended: EventReader[] = [];
    for (const [source, ofSource] of Map.groupBy(readers, ({ scope }) => sourceOf(scope))) {
      const recent = (bySource.get(source) ?? []).sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
      const seen = this.#seen.get(source);
      const unseen = recent.filter(({ eventId }) => !seen?.has(eventId));
      for (const reader of ofSource) {
        const now = rights.get(reader.credentialId);
        const isSame = now?.isRootUser === reader.rights.isRootUser && now.role === reader.rights.role;
        const isNew = !this.#served.has(reader);
        const events = isNew ? recent : unseen;
        if (!isSame) ended.push(reader);
        // If the maximum was read and none is known, others were left out.
        else if (events.length >= maxRecentEvents || (isGap && !isNew)) reader.waiting.addMany();
        else reader.waiting.add(events.filter((event) => isWithin(reader.scope, event)));
      }
      this.#seen.set(source, new Set(recent.map(({ eventId }) => eventId)));
    }
    for (const source of this.#seen.keys()) if (!sources.has(source)) this.#seen.delete(source);
    this.#served = readers;
    this.#readMs = startedMs;
    // The reader opens another stream with its new rights, or is refused.
    for (const reader of ended) reader.waiting.end();
  }
}

function isWithin(scope: Scope, { userId }: RecentEvent): boolean {
  return scope.rows !== 'user' || scope.userId === userId;
}

const sourceOf = (scope: Scope): Source => (scope.rows === 'everything' ? 'everything' : scope.accountId);
