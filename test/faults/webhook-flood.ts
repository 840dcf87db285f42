import { setTimeout as delay } from 'node:timers/promises';
import { recordEvent } from '../../db/core/events.ts';
import { newId } from '../../db/core/new-id.ts';
import type { Orm } from '../../db/orm.ts';
import type { AccountId } from '../../domain/ids.ts';
import { freePort } from '../support/free-port.ts';
import { type Answer, answerWith, WebhookReceiver } from '../support/webhook-receiver.ts';

const endpoints = 20;
/** The number of events in one transaction. */
const eventsPerRound = 5;

/** The misbehaviour of five of the endpoints. The fifth one does not exist at all. */
const misbehaving: Record<string, Answer> = {
  slow: () => {},
  'answers 500': answerWith(500),
  'answers 410': answerWith(410),
  'cuts in the middle': (_request, response) => {
    response.writeHead(200, { 'content-length': '1000' }).write('cut', () => response.socket?.destroy());
  },
};

/** Twenty endpoints of an account, five of which misbehave, and the events that are sent to them. */
export class WebhookFlood {
  readonly healthy: WebhookReceiver[] = [];
  readonly #bad: WebhookReceiver[] = [];
  readonly #orm: Orm;
  readonly #accountId: AccountId;
  /** Events whose transaction was committed, as far as this process knows. */
  readonly committed = new Set<string>();
  readonly #killedRelays = new Set<string>();

  private constructor(orm: Orm, accountId: AccountId) {
    this.#orm = orm;
    this.#accountId = accountId;
  }

  /** @param subscribe makes an endpoint of the account for the type `template.uploaded` */
  static async start(orm: Orm, accountId: AccountId, subscribe: (url: string) => Promise<void>): Promise<WebhookFlood> {
    const flood = new WebhookFlood(orm, accountId);
    for (const answer of Object.values(misbehaving)) flood.#bad.push(await WebhookReceiver.start(answer));
    while (flood.healthy.length + flood.#bad.length + 1 < endpoints) flood.healthy.push(await WebhookReceiver.start());
    for (const { url } of [...flood.#bad, ...flood.healthy]) await subscribe(url);
    await subscribe(`http://127.0.0.1:${await freePort()}/dead`);
    return flood;
  }

  /** Records events up to the given number. A failed transaction is repeated with other ids. */
  async send(count: number, pauseMs: number): Promise<void> {
    const object = { objectId: newId('template'), accountId: this.#accountId, userId: null };
    while (this.committed.size < count) {
      try {
        const ids = await this.#orm.em.fork().transactional(async (tx) => {
          const recorded: string[] = [];
          for (let number = 0; number < eventsPerRound; number += 1) {
            recorded.push((await recordEvent(tx, object, 'template.uploaded', {})).eventId);
          }
          return recorded;
        });
        for (const id of ids) this.committed.add(id);
      } catch {
        // Postgres is down, and it is unknown whether this one was committed.
        await delay(100);
      }
      await delay(pauseMs);
    }
  }

  /** The maximum number of committed events that a healthy endpoint has not received. */
  missing(): number {
    return Math.max(...this.healthy.map((each) => this.committed.size - this.#got(each)));
  }

  /** Requests at all healthy endpoints. */
  requests(): number {
    return this.healthy.reduce((sum, each) => sum + each.received.length, 0);
  }

  /** Requests beyond the first of an event, at all healthy endpoints. */
  duplicates(): number {
    return this.healthy.reduce((sum, each) => sum + each.ids.length - new Set(each.ids).size, 0);
  }

  /**
   * The requests that a relay had in flight when it was killed. Other relays repeat them ten seconds later, and those
   * that had arrived become duplicates.
   */
  async atKill(): Promise<{ held: number; arrived: number }> {
    const rows = (await this.#orm.em.fork().execute(
      `select d.holder, d.event_id, w.url from webhook_deliveries d join webhook_endpoints w using (endpoint_id)
        where d.status = 'delivering' and d.holder like 'relay-%' and w.url in (select jsonb_array_elements_text(?::jsonb))`,
      [JSON.stringify(this.healthy.map(({ url }) => url))],
    )) as { holder: string; event_id: string; url: string }[];
    const own = rows.filter(({ holder }) => !this.#killedRelays.has(holder));
    for (const { holder } of own) this.#killedRelays.add(holder);
    const got = new Map(this.healthy.map((each) => [each.url, new Set(each.ids)]));
    return { held: own.length, arrived: own.filter((row) => got.get(row.url)!.has(row.event_id)).length };
  }

  async stop(): Promise<void> {
    for (const each of [...this.healthy, ...this.#bad]) await each.stop();
  }

  #got(receiver: WebhookReceiver): number {
    return new Set(receiver.ids.filter((id) => this.committed.has(id))).size;
  }
}
