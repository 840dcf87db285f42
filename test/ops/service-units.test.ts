import { execFile, execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { settingsSchema } from '../../platform/config/settings.ts';

const root = path.resolve(import.meta.dirname, '../..');
const unitsFolder = path.join(root, 'ops/service/units');
const units = fs.readdirSync(unitsFolder);
/** Those whose processes have no rights on the machine. */
const unprivileged = ['api', 'gateway', 'worker', 'migrate'].map((name) => `sandbox-platform-${name}.service`);
const read = (unit: string) => fs.readFileSync(path.join(unitsFolder, unit), 'utf8');
/** The values of a directive of a unit. */
const valuesOf = (unit: string, directive: string) =>
  [...read(unit).matchAll(new RegExp(`^${directive}=(.*)$`, 'gm'))].map(([, value]) => value!);

test('systemd accepts each unit', () => {
  expect(units.length).toBe(7);
  for (const unit of units) {
    const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', path.join(unitsFolder, unit)], {
      encoding: 'utf8',
    });
    // The platform is not installed here.
    const complaints = stderr.split('\n').filter((line) => line && !/\/current\/\S+ is not executable/.test(line));
    expect([unit, complaints]).toEqual([unit, []]);
  }
});

test.each(unprivileged)('%s has few rights on the machine, by the measure of systemd', async (unit) => {
  const words = ['security', '--offline=true', '--no-pager', path.join(unitsFolder, unit)];
  const { stdout } = await promisify(execFile)('systemd-analyze', words);
  expect(Number(/Overall exposure level for \S+: (\d+\.\d)/.exec(stdout)?.[1])).toBeLessThanOrEqual(2);
});

test('the processes without rights have the same restrictions', () => {
  const restrictions = (unit: string) => {
    const [, after] = read(unit).split('# Rights.');
    return after!
      .split('\n')
      .filter((line) => !/^(Ambient|CapabilityBounding|# setpriv|SystemCallFilter=capset)/.test(line));
  };
  const [first, ...others] = unprivileged.map(restrictions);
  expect(first!.length).toBeGreaterThan(20);
  for (const other of others) expect(other).toEqual(first);
  const rights = unprivileged.flatMap((unit) => valuesOf(unit, 'CapabilityBoundingSet'));
  expect(rights).toEqual(['', 'CAP_NET_BIND_SERVICE', '', '']);
});

test('each unit runs an existing script, with existing settings', () => {
  const [user] = /^u (\S+)/m.exec(fs.readFileSync(path.join(root, 'ops/service/sysusers.conf'), 'utf8'))!.slice(1);
  const scripts: string[] = [];
  for (const unit of units.filter((name) => name.endsWith('.service'))) {
    for (const command of valuesOf(unit, 'ExecStart')) {
      expect(command).toMatch(/^\/opt\/sandbox-platform\/current\/node_modules\/node\/bin\/node --disable-warning/);
      scripts.push(...command.split(' ').filter((word) => word.endsWith('.ts')));
    }
    for (const setting of valuesOf(unit, 'Environment')) {
      const [name] = setting.split('=');
      expect(['NODE_COMPILE_CACHE', ...Object.keys(settingsSchema.shape)]).toContain(name);
    }
    expect(valuesOf(unit, 'User')).toEqual(unprivileged.includes(unit) ? [user] : []);
  }
  expect(scripts).toEqual(expect.arrayContaining(['worker/host.ts', 'ops/local-stack/start.ts', 'db/migrate.ts']));
  for (const script of scripts) expect([script, fs.existsSync(path.join(root, script))]).toEqual([script, true]);
});

test('only the update of the database knows the owner of the tables', () => {
  const knowing = units.filter((unit) => read(unit).includes('owner.env'));
  expect(knowing).toEqual(['sandbox-platform-migrate.service']);
});

test('sandboxes survive a restart of the processes that run them', () => {
  for (const unit of ['sandbox-platform.service', 'sandbox-platform-host.service']) {
    expect(valuesOf(unit, 'KillMode')).toEqual(['mixed']);
    expect(valuesOf(unit, 'OOMPolicy')).toEqual(['continue']);
    // Sandboxes inherit restrictions of rights, and those of mounts would hide their mounts from the next start.
    expect(read(unit)).not.toMatch(
      /^(Protect|Private|Restrict|SystemCall|CapabilityBounding|NoNewPrivileges|User)\w*=/m,
    );
  }
});

describe('the installation in the root folder of a machine', () => {
  let folder: string;
  let machine: string;
  const at = (place: string) => path.join(machine, place);

  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'service-test-'));
    machine = path.join(folder, 'machine');
    for (const place of ['etc', 'opt', 'var/lib', 'var/cache']) fs.mkdirSync(at(place), { recursive: true });
    fs.writeFileSync(at('etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
    fs.writeFileSync(at('etc/group'), 'root:x:0:\n');
  });

  afterEach(() => fs.rmSync(folder, { recursive: true }));

  /** A release with what the program itself needs. */
  function makeRelease(version: string): string {
    const release = fs.mkdtempSync(path.join(folder, `release-${version}-`));
    for (const part of ['ops/service', 'platform/config', 'domain']) {
      fs.cpSync(path.join(root, part), path.join(release, part), { recursive: true });
    }
    fs.symlinkSync(path.join(root, 'node_modules'), path.join(release, 'node_modules'));
    fs.writeFileSync(path.join(release, 'package.json'), JSON.stringify({ version, type: 'module' }));
    fs.mkdirSync(path.join(release, '.git'));
    fs.writeFileSync(path.join(release, '.git/config'), '');
    return release;
  }

  const run = (release: string, ...words: string[]) =>
    execFileSync(process.execPath, [path.join(release, 'ops/service/main.ts'), '--root', machine, ...words], {
      encoding: 'utf8',
      stdio: 'pipe',
      env: { ...process.env, NODE_OPTIONS: '' },
    });

  const filesBelow = (place: string) =>
    fs
      .readdirSync(place, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => path.relative(place, path.join(entry.parentPath, entry.name)));
  const versions = () => fs.readdirSync(at('opt/sandbox-platform')).sort();
  const current = () => fs.readlinkSync(at('opt/sandbox-platform/current'));
  const isEnabled = (unit: string, by = 'multi-user.target') =>
    fs.lstatSync(at(`etc/systemd/system/${by}.wants/${unit}`), { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

  test('install puts a version, its units, settings and a user there; uninstall --purge leaves nothing', () => {
    const before = filesBelow(machine);
    const release = makeRelease('0.1.0');
    run(release, 'install');
    expect([versions(), current()]).toEqual([['0.1.0', 'current'], '0.1.0']);
    expect(fs.existsSync(at('opt/sandbox-platform/current/ops/service/main.ts'))).toBe(true);
    expect(fs.existsSync(at('opt/sandbox-platform/current/.git'))).toBe(false);
    expect(fs.readdirSync(at('etc/systemd/system')).filter((name) => !name.endsWith('.wants'))).toEqual(units);
    expect([isEnabled('sandbox-platform.service'), isEnabled('sandbox-platform.target')]).toEqual([true, false]);
    expect(fs.statSync(at('etc/sandbox-platform/platform.env')).mode & 0o777).toBe(0o600);
    expect(fs.readFileSync(at('etc/passwd'), 'utf8')).toMatch(/^sandbox-platform:/m);
    expect(() => run(release, 'install')).toThrow('Run: upgrade');

    run(release, 'uninstall', '--purge');
    const created = new Set(filesBelow(machine));
    for (const file of before) created.delete(file);
    // systemd-sysusers and userdel keep copies of the files that they change.
    expect([...created].filter((file) => !/^etc\/(passwd|group|shadow|gshadow|\.pwd\.lock)-?$/.test(file))).toEqual([]);
    expect(fs.readFileSync(at('etc/passwd'), 'utf8')).toBe('root:x:0:0:root:/root:/bin/sh\n');
  });

  test('an upgrade keeps the version before and the settings, and the older program goes back to it', () => {
    run(makeRelease('0.1.0'), 'install');
    fs.appendFileSync(at('etc/sandbox-platform/platform.env'), 'PLATFORM_LOG_LEVEL=warn\n');
    const next = makeRelease('0.2.0');
    run(next, 'upgrade');
    expect([versions(), current()]).toEqual([['0.1.0', '0.2.0', 'current'], '0.2.0']);
    expect(fs.readFileSync(at('etc/sandbox-platform/platform.env'), 'utf8')).toContain('PLATFORM_LOG_LEVEL=warn\n');
    expect(isEnabled('sandbox-platform.service')).toBe(true);

    run(at('opt/sandbox-platform/0.1.0'), 'upgrade');
    expect([versions(), current()]).toEqual([['0.1.0', '0.2.0', 'current'], '0.1.0']);
    run(at('opt/sandbox-platform/0.2.0'), 'upgrade');
    expect(current()).toBe('0.2.0');
    expect(() => run(at('opt/sandbox-platform/0.2.0'), 'upgrade')).toThrow('runs already');

    // A developer's copy has the number of the version that runs.
    run(next, 'upgrade');
    expect([versions(), current()]).toEqual([['0.2.0', '0.2.0-2', 'current'], '0.2.0-2']);
    run(next, 'upgrade');
    expect([versions(), current()]).toEqual([['0.2.0', '0.2.0-2', 'current'], '0.2.0']);
  });

  test('some processes of several machines are enabled below their target', () => {
    const release = makeRelease('0.1.0');
    expect(() => run(release, 'install', 'api', 'control')).toThrow('There is no process control');
    expect(fs.readdirSync(at('opt'))).toEqual([]);
    run(release, 'install', 'migrate', 'api', 'gateway');
    expect([isEnabled('sandbox-platform.service'), isEnabled('sandbox-platform.target')]).toEqual([false, true]);
    const enabled = fs.readdirSync(at('etc/systemd/system/sandbox-platform.target.wants'));
    expect(enabled.sort()).toEqual(['api', 'gateway', 'migrate'].map((name) => `sandbox-platform-${name}.service`));
  });

  test('uninstall keeps data and settings, and the next install goes on with them', () => {
    const release = makeRelease('0.1.0');
    run(release, 'install');
    fs.mkdirSync(at('var/lib/sandbox-platform'));
    fs.appendFileSync(at('etc/sandbox-platform/platform.env'), 'PLATFORM_LOG_LEVEL=warn\n');
    expect(run(at('opt/sandbox-platform/current'), 'uninstall')).toContain('These stay');
    expect(fs.readdirSync(at('opt'))).toEqual([]);
    expect(fs.readdirSync(at('etc/systemd/system')).filter((name) => !name.endsWith('.wants'))).toEqual([]);
    run(release, 'install');
    expect(fs.readFileSync(at('etc/sandbox-platform/platform.env'), 'utf8')).toContain('PLATFORM_LOG_LEVEL=warn\n');
    expect(fs.existsSync(at('var/lib/sandbox-platform'))).toBe(true);
  });
});
