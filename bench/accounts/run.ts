import { fork } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { PasswordHashes } from '../../api/routes/accounts/sign-in/password-hashes.ts';
import { User } from '../../db/accounts/user.entity.ts';
import { bootstrap } from '../../db/bootstrap.ts';
import { newId } from '../../db/core/new-id.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { heapFlags } from '../../platform/config/heap-limits.ts';
import { deriveSecrets } from '../../platform/config/secrets.ts';
import { testDatabase } from '../../test/support/stack.ts';
import { TestStack } from '../../test/support/test-stack.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable } from '../table.ts';

/**
 * The cost of a sign-in in addition to its argon2, the cost of identifying the caller, and the effect of 50 concurrent
 * sign-ins on other requests. `npm run bench -- accounts`
 */
const times = 200;
const requests = 2000;
const atOnce = 50;
const rounds = 8;
const password = 'korrekt pferd batterie';
const secretKey = Buffer.alloc(32, 3).toString('base64');

const stack = await TestStack.listen();
process.env.TEST_STACK_SOCKET = stack.socket;
const database = await testDatabase();
const orm = await createOrm(database.url, 1);
const hashes = new PasswordHashes(deriveSecrets({ PLATFORM_SECRET_KEY: secretKey }));
const hash = await hashes.hash(password);
const account = (await bootstrap(orm, {
  email: 'root@example.com',
  planName: 'enterprise',
  baseImage: 'builtin:base',
}))!;
const emails = await addUsers(orm, atOnce);
await orm.close();
const api = fork(path.join(import.meta.dirname, '../../api/server.ts'), {
  execArgv: heapFlags('api/server.ts', {}),
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
const agent = new http.Agent({ keepAlive: true });
try {
  const url = await new Promise<string>((resolve) => {
    createInterface({ input: api.stdout! }).on('line', (line) => {
      if (line.includes('"msg":"ready"')) resolve(JSON.parse(line).address);
    });
  });
  const signIn = async (email: string) => {
    const reply = await ask(`${url}/v1/auth/sign-in`, {}, { email, password });
    if (reply.status !== 200) throw new Error(`a sign-in answered ${reply.status}: ${reply.body}`);
    return JSON.parse(reply.body).data.access_token as string;
  };
  const plans = (headers: Record<string, string>) => ask(`${url}/v1/user-management/plans`, headers);
  const byKey = { 'x-api-key': account.apiKey };
  const byToken = { authorization: `Bearer ${await signIn(emails[0]!)}` };

  // The two are measured alternately, so that changes of the machine's load affect both.
  const argon: number[] = [];
  const signIns: number[] = [];
  await inTurn(times, async (index) => {
    argon.push(await timed(() => hashes.verify(hash, password)));
    signIns.push(await timed(() => signIn(emails[index % atOnce]!)));
    return 0;
  });

  const open: number[] = [];
  const withKey: number[] = [];
  const withToken: number[] = [];
  await inTurn(requests, async () => {
    open.push(await timed(() => ask(`${url}/healthz`, {})));
    withKey.push(await timed(() => plans(byKey)));
    withToken.push(await timed(() => plans(byToken)));
    return 0;
  });

  const quiet: number[] = [];
  const besides: number[] = [];
  for (let round = 0; round < rounds; round++) {
    let under = true;
    const storm = Promise.all(emails.map(signIn)).finally(() => {
      under = false;
    });
    let asked = 0;
    for (; under; asked++) besides.push(await timed(() => plans(byKey)));
    await storm;
    quiet.push(...(await inTurn(asked, () => timed(() => plans(byKey)))));
  }

  const [bare, whole] = [summarize(argon), summarize(signIns)];
  const [none, key, token] = [summarize(open), summarize(withKey), summarize(withToken)];
  const [before, during] = [summarize(quiet), summarize(besides)];
  printTable('Accounts', [
    { measure: 'bare argon2', value: bare, unit: 'ms' },
    { measure: 'sign-in', value: whole, unit: 'ms', goal: `p50 ${holdAgainst(whole.p50, 1.2 * bare.p50, 'ms')}` },
    { measure: 'GET without a caller', value: none, unit: 'ms' },
    { measure: 'GET with a key', value: key, unit: 'ms', goal: `p50 ${holdAgainst(key.p50, none.p50 + 1, 'ms')}` },
    {
      measure: 'GET with a token',
      value: token,
      unit: 'ms',
      goal: `p50 ${holdAgainst(token.p50, none.p50 + 1, 'ms')}`,
    },
    { measure: 'GET, nothing besides', value: before, unit: 'ms' },
    {
      measure: `GET during ${atOnce} sign-ins at once`,
      value: during,
      unit: 'ms',
      goal: `p99 ${holdAgainst(during.p99, 2 * before.p99, 'ms')}`,
    },
  ]);
} finally {
  agent.destroy();
  const ended = once(api, 'exit');
  api.kill('SIGTERM');
  await ended;
  await stack.stop();
}

/** @returns their e-mail addresses; all users have the same password */
async function addUsers(of: Orm, count: number): Promise<string[]> {
  const em = of.em.fork();
  const names = Array.from({ length: count }, (_, index) => `user-${index}`);
  for (const name of names) {
    em.create(User, {
      userId: newId('user'),
      accountId: account.accountId,
      email: `${name}@example.com`,
      username: name,
      displayName: name,
      passwordHash: hash,
    });
  }
  await em.flush();
  return names.map((name) => `${name}@example.com`);
}

async function ask(
  url: string,
  headers: Record<string, string>,
  body?: object,
): Promise<{ status: number; body: string }> {
  const sent = body && JSON.stringify(body);
  const request = http.request(url, {
    agent,
    method: sent ? 'POST' : 'GET',
    headers: { ...headers, ...(sent && { 'content-type': 'application/json', 'content-length': sent.length }) },
  });
  request.end(sent);
  const [reply] = (await once(request, 'response')) as [http.IncomingMessage];
  return { status: reply.statusCode!, body: await text(reply) };
}
