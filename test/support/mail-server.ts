import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer } from 'smtp-server';
import { until } from './until.ts';

/** A mail as it arrived. */
export interface ArrivedMail extends Email {
  /** Whom the envelope names. */
  receivers: string[];
  raw: string;
}

/** A real SMTP server, which asks for a password and keeps what arrives. */
export class MailServer {
  readonly password = 'password-of-the-mail-server';
  readonly mails: ArrivedMail[] = [];
  /** Answers to the next mails, in the place of taking them: `451 try later`. */
  readonly answers: string[] = [];
  /** The same for the next mails to one receiver: mails of other tests may still be on their way. */
  readonly answersTo = new Map<string, string[]>();
  /** What came and was not taken. */
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

  /** The next mail to somebody that has not been taken yet. */
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
