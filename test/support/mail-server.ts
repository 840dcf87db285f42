import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer } from 'smtp-server';
import { until } from './until.ts';

/** A received mail. */
export interface ArrivedMail extends Email {
  /** The receivers in the envelope. */
  receivers: string[];
  raw: string;
}

/** A real SMTP server, which requires a password and keeps received mails. */
export class MailServer {
  readonly password = 'password-of-the-mail-server';
  readonly mails: ArrivedMail[] = [];
  /** Replies to the next mails instead of accepting them: `451 try later`. */
  readonly answers: string[] = [];
  /** The same for the next mails to one receiver, because mails of other tests may still arrive. */
  readonly answersTo = new Map<string, string[]>();
  /** Mails that arrived and were not accepted. */
  readonly refused: ArrivedMail[] = [];
  readonly #server: SMTPServer;

  private constructor() {
    this.#server = new SMTPServer({
      disabledCommands: ['STARTTLS'],
      authMethods: ['PLAIN', 'LOGIN'],
      onAuth: ({ username, password }, _session, done) => {
        if (username === 'platform' && password === this.password) done(null, { user: username });
        else done(new Error('wrong password'));
      },
      onData: async (stream, session, done) => {
        const raw = await buffer(stream);
        const receivers = session.envelope.rcptTo.map(({ address }) => address);
        const mail = { ...(await PostalMime.parse(raw)), receivers, raw: raw.toString() };
        const own = receivers.map((receiver) => this.answersTo.get(receiver)?.shift()).find(Boolean);
        const [code, ...text] = (own ?? this.answers.shift())?.split(' ') ?? [];
        if (code !== undefined) {
          this.refused.push(mail);
          return done(Object.assign(new Error(text.join(' ')), { responseCode: Number(code) }));
        }
        this.mails.push(mail);
        done();
      },
    });
  }

  static async start(): Promise<MailServer> {
    const made = new MailServer();
    const listening = made.#server.listen(0, '127.0.0.1');
    await once(listening, 'listening');
    return made;
  }

  get url(): string {
    const { port } = this.#server.server.address() as AddressInfo;
    return `smtp://platform:${this.password}@127.0.0.1:${port}`;
  }

  /** Waits for the next mail to the receiver that no earlier call returned. */
  async take(receiver: string): Promise<ArrivedMail> {
    const find = () => this.mails.findIndex(({ receivers }) => receivers.includes(receiver));
    await until(() => find() >= 0, 90_000);
    return this.mails.splice(find(), 1)[0]!;
  }

  async stop(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

/** The token of the link in a mail. */
export function tokenIn({ text = '' }: Pick<Email, 'text'>): string {
  const [, token] = /[?&]token=([\w-]+)/.exec(text) ?? [];
  if (token === undefined) throw new Error(`no link with a token in ${text}`);
  return token;
}
