import type { Logger } from 'pino';
import { NotificationListener } from '../../db/core/notification-listener.ts';
import { answerRequests, certificateRequestChannel } from '../../db/hosts/last-hop-certificates.ts';
import type { Orm } from '../../db/orm.ts';
import type { LastHopAuthority } from '../../gateway/last-hop/authority.ts';

/** The poll interval, which finds requests whose notification was lost. */
const everyMs = 5000;

/** Issues requested certificates of the last hop. Any number of processes may run it. Each request gets one answer. */
export class LastHopIssuer {
  readonly #orm: Orm;
  readonly #authority: LastHopAuthority;
  readonly #logger: Logger;
  readonly #listener: NotificationListener;
  #timer: NodeJS.Timeout | null = null;
  #answering: Promise<void> | null = null;
  #isAskedAgain = false;

  constructor(deps: { orm: Orm; databaseUrl: string; authority: LastHopAuthority; logger: Logger }) {
    this.#orm = deps.orm;
    this.#authority = deps.authority;
    this.#logger = deps.logger;
    const answer = () => this.#answerSoon();
    this.#listener = new NotificationListener({
      databaseUrl: deps.databaseUrl,
      channel: certificateRequestChannel,
      logger: deps.logger,
      onNotification: answer,
      onLiveChange: answer,
    });
  }

  start(): void {
    this.#listener.start();
    this.#timer = setInterval(() => this.#answerSoon(), everyMs);
    this.#answerSoon();
  }

  async stop(): Promise<void> {
    if (this.#timer) clearInterval(this.#timer);
    await this.#listener.close();
    await this.#answering;
  }

  #answerSoon(): void {
    if (this.#answering) {
      this.#isAskedAgain = true;
      return;
    }
    this.#answering = this.#answerAll()
      .catch((error) => this.#logger.warn({ err: error }, 'certificates of the last hop could not be issued'))
      .finally(() => {
        this.#answering = null;
      });
  }

  async #answerAll(): Promise<void> {
    do {
      this.#isAskedAgain = false;
      const answered = await answerRequests(this.#orm.em, async (request, isRevoked) => {
        const issued = await this.#authority.issue(request, isRevoked);
        const { role, name } = request;
        if ('refusal' in issued)
          this.#logger.warn({ role, name, refusal: issued.refusal }, 'a certificate was refused');
        else this.#logger.info({ role, name, expiresAt: issued.expiresAt }, 'a certificate was issued');
        return issued;
      });
      if (answered > 0) this.#isAskedAgain = true;
    } while (this.#isAskedAgain);
  }
}
