import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { bootstrap } from '../../../db/bootstrap.ts';
import { newId } from '../../../db/core/new-id.ts';
import { Host } from '../../../db/hosts/host.entity.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import type { HostImageState, HostImages } from '../../../runtime/host-driver.ts';
import { BuiltinImageKeeper } from '../../../worker/templates/builtin-image-keeper.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

/** The reports of hosts about the images that they make, on a real database. The test decides when builds end. */
let database: TestDatabase;
let orm: Orm;
const keepers: BuiltinImageKeeper[] = [];
let isDiskFull = false;

const image = 'builtin:code-interpreter';

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
  const email = `root-${randomBytes(4).toString('hex')}@example.com`;
  await bootstrap(orm, { email, planName: 'pro', baseImage: 'builtin:base' });
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});
afterEach(async () => {
  isDiskFull = false;
  for (const keeper of keepers.splice(0)) await keeper.stop();
  await orm.em.fork().execute('delete from builtin_images');
});

class Builds implements HostImages {
  readonly names = [image];
  isThere = false;
  begun = 0;
  #listener: (state: HostImageState) => void = () => {};
  #build: PromiseWithResolvers<void> | null = null;
  #held: Promise<void> = Promise.resolve();

  onChange(listener: (state: HostImageState) => void): void {
    this.#listener = listener;
  }

  async isMade(): Promise<boolean> {
    return this.isThere;
  }

  /** Delays the next builds until the returned function is called, so that the state before them can be observed. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    return resolve;
  }

  async get(_image: string, signal: AbortSignal): Promise<void> {
    await this.#held;
    signal.throwIfAborted();
    if (this.isThere) return;
    if (!this.#build) {
      this.begun += 1;
      this.#build = Promise.withResolvers();
      this.#build.promise.catch(() => {});
      this.#listener({ image, status: 'building', message: null });
    }
    const { promise: left, reject } = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    await Promise.race([this.#build.promise, left]);
  }

  end(message: string | null): void {
    const build = this.#build!;
    this.#build = null;
    this.isThere = message === null;
    this.#listener({ image, status: message === null ? 'available' : 'failed', message });
    if (message === null) build.resolve();
    else build.reject(new Error(message));
  }
}

async function host(options: { ahead?: string[]; isThere?: boolean; hostId?: string } = {}) {
  const hostId = options.hostId ?? newId('host');
  if (!options.hostId) {
    const em = orm.em.fork();
    em.create(Host, { hostId, region: 'local', regionName: 'Local', leaseExpiresAt: new Date(Date.now() + 3_600_000) });
    await em.flush();
  }
  const images = new Builds();
  images.isThere = options.isThere ?? false;
  const keeper = new BuiltinImageKeeper({
    orm,
    images,
    hostId,
    ahead: options.ahead ?? ['code-interpreter'],
    hasSpace: () => !isDiskFull,
    retrySeconds: [0.05, 0.3],
    logger: pino({ level: 'silent' }),
  });
  keepers.push(keeper);
  await keeper.start();
  return { images, keeper, hostId };
}

async function template() {
  const { status, buildErrorMessage } = await orm.em.fork().findOneOrFail(Template, { image });
  return { status, buildErrorMessage };
}

const becomes = (status: string) => until(async () => (await template()).status === status);

test('a template is building while its image is made ahead, then available', async () => {
  const { images } = await host();
  await becomes('building');
  images.end(null);
  await becomes('available');
  expect(images.begun).toBe(1);
});

test('a template whose image is made at its first use is pending until then', async () => {
  const { images } = await host({ ahead: [] });
  await becomes('pending');
  expect(images.begun).toBe(0);
  void images.get(image, new AbortController().signal);
  await becomes('building');
  images.end(null);
  await becomes('available');
});

test('an existing image is available at once, and one that is missing at the next start is not', async () => {
  const { hostId, keeper } = await host({ isThere: true });
  await becomes('available');
  await keeper.stop();
  await host({ hostId, ahead: [] });
  await becomes('pending');
});

test('a failed build is shown with its reason, and retried until it succeeds', async () => {
  const { images } = await host();
  await becomes('building');
  images.end('The image could not be made (a step)');
  await until(() => images.begun === 2);
  await becomes('building');
  const release = images.hold();
  images.end('The image could not be made (a step)');
  await becomes('failed');
  const { buildErrorMessage } = await template();
  expect(buildErrorMessage).toMatch(/^The image could not be made \(a step\)\. The next attempt begins at 20\d\d-/);
  release();
  await until(() => images.begun === 3);
  images.end(null);
  await becomes('available');
  expect((await template()).buildErrorMessage).toBeNull();
});

test('one host with the image is enough; the failure of another counts when that host is lost', async () => {
  const first = await host({ isThere: true });
  const second = await host();
  await until(() => second.images.begun === 1);
  const retry = second.images.hold();
  second.images.end('no space');
  await until(async () => (await readRow(second.hostId))?.status === 'failed');
  expect((await template()).status).toBe('available');
  await orm.em.fork().nativeUpdate(Host, { hostId: first.hostId }, { lostAt: new Date() });
  retry();
  // At its next report.
  await until(() => second.images.begun === 2);
  const release = second.images.hold();
  second.images.end('no space');
  await becomes('failed');
  release();
});

test('on a nearly full disk it is not made until there is space again', async () => {
  isDiskFull = true;
  const { images } = await host();
  const full = /^The disk of the host is nearly full\. The next attempt/;
  await until(async () => full.test((await template()).buildErrorMessage ?? ''));
  expect((await template()).status).toBe('failed');
  expect(images.begun).toBe(0);
  isDiskFull = false;
  await until(() => images.begun === 1);
  images.end(null);
  await becomes('available');
});

test('a stop ends the wait for the next attempt', async () => {
  const { images, keeper } = await host();
  await becomes('building');
  images.end('not now');
  await keeper.stop();
  expect(images.begun).toBe(1);
});

async function readRow(hostId: string): Promise<{ status: string } | undefined> {
  const rows = await orm.em.fork().execute('select status from builtin_images where host_id = ?', [hostId]);
  return rows[0] as { status: string } | undefined;
}
