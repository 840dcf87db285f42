import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { createAccount, type MadeAccount } from '../../../db/accounts/accounts.ts';
import { loadPlans } from '../../../db/billing/plans.ts';
import { bootstrap } from '../../../db/bootstrap.ts';
import { newId } from '../../../db/core/new-id.ts';
import { Host } from '../../../db/hosts/host.entity.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { admitSandbox } from '../../../db/sandboxes/admission.ts';
import { SandboxLifeRepository } from '../../../db/sandboxes/sandbox-life.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import { anyRegion } from '../../../domain/hosts/placement.ts';
import type { SandboxId, TemplateId } from '../../../domain/ids.ts';
import { MachineLoad } from '../../../runtime/machine-load.ts';
import { CapacityReporter } from '../../../worker/hosts/capacity-reporter.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';

/** The free resources that hosts report, and how many sandboxes are then admitted, on a real database. */
let database: TestDatabase;
let orm: Orm;
let life: SandboxLifeRepository;
let hostId: string;
let templateId: TemplateId;
let reporter: CapacityReporter;
const accounts: MadeAccount[] = [];
const plans = loadPlans();
const mb = 1024 ** 2;
/** The test sets the machine's figures: 16 GiB, of which 1024 MB are free in addition to a reserve of 1024 MB. */
let memory: { totalMb: number; availableMb: number; stalledPct: number };
let processorUsed: number;
let diskFreeMb: number;

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 10);
  life = new SandboxLifeRepository(orm.em, plans);
  const address = () => `root-${randomBytes(4).toString('hex')}@example.com`;
  accounts.push((await bootstrap(orm, { email: address(), planName: 'enterprise', baseImage: 'builtin:base' }))!);
  for (let more = 0; more < 4; more += 1) {
    const wanted = { email: address(), displayName: 'Root', planName: 'enterprise', role: 'user' } as const;
    accounts.push(await orm.em.fork().transactional((em) => createAccount(em, wanted)));
  }
  templateId = (await orm.em.fork().findOneOrFail(Template, { name: 'base' })).templateId;
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

beforeEach(async () => {
  const em = orm.em.fork();
  await em.execute('delete from events; delete from outbox; delete from sandboxes; delete from template_peaks');
  await em.execute('delete from hosts');
  hostId = newId('host');
  const leaseExpiresAt = new Date(Date.now() + 3_600_000);
  em.create(Host, { hostId, region: 'local', regionName: 'Local', leaseExpiresAt });
  await em.flush();
  memory = { totalMb: 16_384, availableMb: 2048, stalledPct: 0 };
  processorUsed = 0.1;
  diskFreeMb = 100_000;
  const limits = { admitBytes: 5000 * mb } as ReturnType<Driver['diskSpace']>['limits'];
  reporter = new CapacityReporter({
    orm,
    hostId,
    driver: {
      diskSpace: () => ({ bytes: diskFreeMb * mb, inodes: 1e6, freeBytes: diskFreeMb * mb, freeInodes: 1e6, limits }),
      load: { coreCount: 2, memory: () => memory, processorUsed: () => processorUsed },
    },
    memoryReserveMb: 1024,
    logger: pino({ level: 'silent' }),
  });
});
type Driver = ConstructorParameters<typeof CapacityReporter>[0]['driver'];

const admit = async (account = accounts[0]!, size: { memoryMb?: number; cpuCount?: number } = {}) => {
  const { accountId, userId: ownerUserId, projectId } = account;
  const names = { name: 'test', description: '', templateName: 'base', templateSource: 'platform_family' };
  const commands = { templatePorts: [], templateCustomCommand: null, templateReadyCommand: null };
  const lasting = { timeoutSeconds: 300, autoPause: false, secure: true, allowInternetAccess: false };
  const own = { metadata: {}, envVars: {}, customPorts: [], image: 'builtin:base', ...lasting, ...commands };
  const sized = { cpuCount: 2, memoryMb: 512, storageGb: 100, ...size };
  const ids = { sandboxId: newId('sandbox'), accountId, ownerUserId, projectId, templateId };
  return (await admitSandbox(orm.em.fork(), plans, { ...ids, ...names, ...own, ...sized }, anyRegion)).sandbox;
};
const runs = async (sandboxId: SandboxId) => {
  await life.begin(sandboxId, 1);
  await life.run(sandboxId, { address: '10.0.0.2', agentPort: 1 }, new Date());
};
const use = (sandboxId: SandboxId, memoryMb: number, cores = 0.01) => {
  const bytes = { memoryBytes: memoryMb * mb, diskBytes: mb, diskTotalBytes: 9 * mb, receivedBytes: 0, sentBytes: 0 };
  return { sandboxId, cpuSeconds: cores * 5, overSeconds: 5, ...bytes };
};
const refused = (what: string) => ({
  code: 'no_capacity',
  message: expect.stringContaining(`No host has enough free ${what} for`),
});
const hostRow = async () => (await orm.em.fork().findOneOrFail(Host, { hostId })) as Host;
/** Records that an earlier sandbox of the template used at most this much memory. */
const knowPeak = async (memoryMb: number) => {
  await reporter.report();
  const { sandboxId } = await admit();
  await runs(sandboxId);
  reporter.take([use(sandboxId, memoryMb)]);
  await reporter.report();
  await orm.em.fork().execute('delete from sandboxes');
};

test('100 concurrent creates of five accounts are admitted up to the free memory, each with the peak of its template', async () => {
  await knowPeak(50);
  const tries = Array.from({ length: 100 }, (_, index) => admit(accounts[index % accounts.length]));
  const settled = await Promise.allSettled(tries);
  // 1024 MB at 50 MB each.
  expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(20);
  for (const each of settled) {
    if (each.status === 'rejected') expect(each.reason).toMatchObject(refused('memory'));
  }
});

test('without measurements each sandbox counts with all of its memory', async () => {
  await reporter.report();
  await admit();
  await admit();
  await expect(admit()).rejects.toMatchObject(refused('memory'));
  await expect(admit(accounts[1], { memoryMb: 128 })).rejects.toMatchObject(refused('memory'));
});

test('a measured sandbox counts with its real use, and so do later ones of its template', async () => {
  await reporter.report();
  const made = [await admit(), await admit()];
  for (const { sandboxId } of made) await runs(sandboxId);
  reporter.take(made.map(({ sandboxId }) => use(sandboxId, 40)));
  memory.availableMb -= 80;
  await reporter.report();
  // 944 MB are free, and each further one is expected to use 40.
  for (let count = 0; count < 23; count += 1) await admit();
  await expect(admit()).rejects.toMatchObject(refused('memory'));
});

test('a paused sandbox counts with its memory; one without processes needs free memory to resume', async () => {
  await knowPeak(512);
  const frozen = await admit();
  await runs(frozen.sandboxId);
  reporter.take([use(frozen.sandboxId, 512)]);
  memory.availableMb = 1024 + 512;
  await reporter.report();
  await life.pause(frozen.sandboxId, 'user_requested', new Date(), true);
  // Its memory is not available, so one more sandbox uses the rest.
  const last = await admit();
  await expect(admit()).rejects.toMatchObject(refused('memory'));
  // Its memory is reserved, so it may resume.
  await life.beginResume(frozen.sandboxId, 2);
  await life.pause(frozen.sandboxId, 'user_requested', new Date(), false);
  await expect(life.beginResume(frozen.sandboxId, 3)).rejects.toMatchObject({ code: 'no_capacity' });
  await life.fail(
    last.sandboxId,
    'start_failed',
    { message: '', exitCode: 1, outOfMemory: false, commandOutput: '' },
    new Date(),
  );
  await life.stop(last.sandboxId, new Date());
  await life.beginResume(frozen.sandboxId, 3);
});

test('idle sandboxes use no processor capacity; busy ones without idle time do', async () => {
  memory.availableMb = 1e6;
  await reporter.report();
  const made = await Promise.all(Array.from({ length: 20 }, () => admit()));
  for (const { sandboxId } of made) await runs(sandboxId);
  const all = (cores: number) => made.map(({ sandboxId }) => use(sandboxId, 20, cores));
  reporter.take(all(0.1));
  processorUsed = 1;
  await reporter.report();
  expect(await hostRow()).toMatchObject({ cpuFree: expect.closeTo(2 * 16 - 20 * 2), shortOf: ['cpu'] });
  await expect(admit()).rejects.toMatchObject(refused('processor time'));
  // The processor is as busy as before, with other programs.
  reporter.take(all(0.001));
  await reporter.report();
  expect(await hostRow()).toMatchObject({ cpuFree: expect.closeTo(31.98), shortOf: [] });
  await admit();
});

test('a host under pressure writes the missing resources to its row, and refuses', async () => {
  memory = { totalMb: 16_384, availableMb: 4000, stalledPct: 40 };
  diskFreeMb = 4000;
  await reporter.report();
  expect(await hostRow()).toMatchObject({ shortOf: ['memory', 'disk'], memoryMbFree: -96, diskMbFree: -1000 });
  await expect(admit()).rejects.toMatchObject(refused('memory and disk space'));
  memory.stalledPct = 0;
  diskFreeMb = 40_000;
  await reporter.report();
  expect(await hostRow()).toMatchObject({ shortOf: [], memoryMbFree: 2976, diskMbFree: 35_000 });
  await admit();
});

test('a host with old figures accepts nothing', async () => {
  await reporter.report();
  await orm.em.fork().execute("update hosts set measured_at = now() - interval '31 seconds'");
  await expect(admit()).rejects.toMatchObject({ code: 'no_capacity' });
  await reporter.report();
  await admit();
});

test('after a restart a sandbox counts with its expected use until it is measured again', async () => {
  memory.availableMb = 1024 + 1200;
  await reporter.report();
  const { sandboxId } = await admit();
  await runs(sandboxId);
  reporter.take([use(sandboxId, 500)]);
  await reporter.report();
  const isMeasured = async () => (await life.find(sandboxId))!.isMeasured;
  expect(await isMeasured()).toBe(true);
  await life.beginRestart(sandboxId, 2, new Date());
  expect(await isMeasured()).toBe(false);
  await life.run(sandboxId, { address: '10.0.0.2', agentPort: 1 }, new Date());
  // The sample during the restart did not find it.
  reporter.take([]);
  await reporter.report();
  reporter.take([use(sandboxId, 500)]);
  await reporter.report();
  expect(await isMeasured()).toBe(true);
});

test('the figures of this machine are available', () => {
  const machine = new MachineLoad();
  const { totalMb, availableMb, stalledPct } = machine.memory();
  expect(totalMb).toBeGreaterThan(availableMb);
  expect(availableMb).toBeGreaterThan(0);
  expect(stalledPct).toBeGreaterThanOrEqual(0);
  const until = performance.now() + 50;
  while (performance.now() < until);
  const used = machine.processorUsed();
  expect(used).toBeGreaterThan(0);
  expect(used).toBeLessThanOrEqual(1);
});
