import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { bootstrap } from '../../db/bootstrap.ts';
import { createOrm } from '../../db/orm.ts';
import { heapFlags } from '../../platform/config/heap-limits.ts';
import { codecAccessToken } from '../../platform/temporal/codec-access.ts';
import { testDatabase } from './stack.ts';

const server = path.resolve(import.meta.dirname, '../../api/server.ts');
const secretKey = Buffer.alloc(32, 3).toString('base64');

/** The API's process, started as in production, with its own database and without request limits. */
export class UnlimitedApi {
  readonly url: string;
  /** The key of its only account's root. */
  readonly key: string;
  readonly codecToken = codecAccessToken(secretKey);
  readonly #child: ChildProcess;
  readonly #drop: () => Promise<void>;

  private constructor(child: ChildProcess, url: string, key: string, drop: () => Promise<void>) {
    this.#child = child;
    this.url = url;
    this.key = key;
    this.#drop = drop;
  }

  /** @param probe a module that is loaded first and answers messages; see `ask` */
  static async start(planName: string, probe: string, flags: string[] = []): Promise<UnlimitedApi> {
    const database = await testDatabase();
    const orm = await createOrm(database.url, 1);
    const made = await bootstrap(orm, { email: 'root@example.com', planName, baseImage: 'builtin:base' });
    await orm.close();
    const child = fork(server, {
      execArgv: [...heapFlags('api/server.ts', {}), ...flags, `--import=${probe}`],
      env: {
        PATH: process.env.PATH,
        PLATFORM_SECRET_KEY: secretKey,
        DATABASE_URL: database.url,
        PLATFORM_API_PORT: '0',
        PLATFORM_RATE_LIMIT_PER_KEY: '0',
        PLATFORM_RATE_LIMIT_PER_ADDRESS: '0',
      },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    const lines = createInterface({ input: child.stdout! });
    const url = await new Promise<string>((resolve, reject) => {
      child.once('exit', () => reject(new Error('the API ended before it was ready')));
      lines.on('line', (line) => {
        if (line.includes('"msg":"ready"')) resolve(JSON.parse(line).address);
      });
    });
    return new UnlimitedApi(child, url, made!.apiKey, () => database.drop());
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** The answer of its probe. */
  async ask<Answer>(): Promise<Answer> {
    this.#child.send('ask');
    const [answer] = await once(this.#child, 'message');
    return answer;
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
    await this.#drop();
  }
}
