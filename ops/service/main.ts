import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs, parseEnv } from 'node:util';
import { pino } from 'pino';
import { loadSettings, SettingsError } from '../../platform/config/settings.ts';

/**
 * `node ops/service/main.ts install [PROCESS…] | upgrade | uninstall [--purge]`: runs this copy of the platform as
 * services of systemd (docs/service.md). Without a process, it installs `sandbox-platform.service`, the whole platform on
 * one machine. With `--root FOLDER` it changes only the files below that folder, such as the root of a machine's image:
 * nothing is set up, started or stopped.
 */
const usage = `Usage, as root:
  node ops/service/main.ts install                  the whole platform on this machine
  node ops/service/main.ts install PROCESS…         some of its processes: migrate api gateway worker host
  node ops/service/main.ts upgrade                  from the folder of another release
  node ops/service/main.ts uninstall [--purge]      --purge also removes data, caches and settings
With --root FOLDER, only files below that folder are changed.`;

const processes = ['migrate', 'api', 'gateway', 'worker', 'host'];
const [wholePlatform, someProcesses] = ['sandbox-platform.service', 'sandbox-platform.target'];
const user = 'sandbox-platform';
const source = path.resolve(import.meta.dirname, '../..');
/** Not needed by a service. A release has none of them. */
const leftOut = ['.git', '.data', 'test', 'bench'];
const unitFiles = path.join(import.meta.dirname, 'units');
/** Read at the start, because `uninstall` also removes the folder of this program. */
const units = fs.readdirSync(unitFiles);

/** An expected failure. The message says what to do. */
class ServiceError extends Error {
  override name = 'ServiceError';
}

const say = (text: string) => console.log(text);

/** The places of an installation. The units name the same ones. */
class Machine {
  readonly root: string;
  /** Each version has a folder here; `current` links to the one that runs. */
  readonly programs: string;
  readonly current: string;
  readonly units: string;
  readonly settings: string;
  readonly settingsFile: string;
  readonly data: string;
  readonly cache: string;

  constructor(root: string) {
    const below = (place: string) => path.join(root, place);
    this.root = root;
    this.programs = below('/opt/sandbox-platform');
    this.current = path.join(this.programs, 'current');
    this.units = below('/etc/systemd/system');
    this.settings = below('/etc/sandbox-platform');
    this.settingsFile = path.join(this.settings, 'platform.env');
    this.data = below('/var/lib/sandbox-platform');
    this.cache = below('/var/cache/sandbox-platform');
  }

  get isThisMachine(): boolean {
    return this.root === '/';
  }

  /** The folder that runs. Undefined: the platform is not installed. */
  get running(): string | undefined {
    return fs.existsSync(this.current) ? fs.realpathSync(this.current) : undefined;
  }

  /** The settings of a service, as its unit passes them. */
  readSettings(): NodeJS.ProcessEnv {
    const given = fs.existsSync(this.settingsFile) ? parseEnv(fs.readFileSync(this.settingsFile, 'utf8')) : {};
    return { PLATFORM_DATA_DIR: this.data, PLATFORM_CACHE_DIR: this.cache, ...given };
  }

  systemctl(...words: string[]): void {
    const command = this.isThisMachine ? words : [`--root=${this.root}`, ...words];
    const { status } = spawnSync('systemctl', command, { stdio: 'inherit' });
    if (status !== 0) throw new ServiceError(`systemctl ${words.join(' ')} failed.`);
  }

  isEnabled(unit: string): boolean {
    const words = [...(this.isThisMachine ? [] : [`--root=${this.root}`]), '--quiet', 'is-enabled', unit];
    return spawnSync('systemctl', words, { stdio: 'ignore' }).status === 0;
  }
}

async function install(machine: Machine, names: string[]): Promise<void> {
  const unknown = names.filter((name) => !processes.includes(name));
  if (unknown.length > 0) throw new ServiceError(`There is no process ${unknown.join(', ')}.\n\n${usage}`);
  if (machine.running) throw new ServiceError(`${machine.running} is installed already. Run: upgrade`);
  const folder = copyPlatform(machine);
  fs.mkdirSync(machine.settings, { recursive: true, mode: 0o755 });
  if (!fs.existsSync(machine.settingsFile)) {
    fs.writeFileSync(machine.settingsFile, settingsText(names), { mode: 0o600 });
  }
  setUp(machine, folder, names.length > 0);
  execFileSync('systemd-sysusers', [`--root=${machine.root}`, path.join(import.meta.dirname, 'sysusers.conf')]);
  copyUnits(machine);
  switchTo(machine, folder);
  const wanted = names.length > 0 ? [someProcesses, ...names.map(unitOf)] : [wholePlatform];
  machine.systemctl('enable', ...wanted);
  if (!machine.isThisMachine) return;
  machine.systemctl('daemon-reload');
  const missing = names.length > 0 ? wrongSettings(machine) : null;
  if (missing) {
    say(`\nInstalled and not started yet. ${missing}\nWrite them to ${machine.settingsFile}, then run:`);
    say(`  systemctl start ${someProcesses}`);
    return;
  }
  start(wanted[0]!);
  say(`\n${wanted[0]} runs, and starts at each boot. Its log: journalctl -u '${logUnits(names)}'`);
  if (names.length === 0) say(`Its URL and API key: ${path.join(machine.data, 'platform.env')}`);
}

async function upgrade(machine: Machine): Promise<void> {
  const before = machine.running;
  if (!before) throw new ServiceError('The platform is not installed. Run: install');
  if (before === source) throw new ServiceError(`${source} runs already. Run this from the folder of another release.`);
  const isOlder = path.dirname(source) === machine.programs;
  const folder = isOlder ? source : copyPlatform(machine);
  const isDivided = machine.isEnabled(someProcesses);
  setUp(machine, folder, isDivided);
  copyUnits(machine);
  switchTo(machine, folder);
  for (const other of versions(machine)) {
    if (other !== folder && other !== before) fs.rmSync(other, { recursive: true });
  }
  if (!machine.isThisMachine) return;
  machine.systemctl('daemon-reload');
  const back = `${before}/node_modules/node/bin/node ${before}/ops/service/main.ts upgrade`;
  try {
    for (const unit of [wholePlatform, someProcesses]) if (machine.isEnabled(unit)) start(unit);
  } finally {
    say(`\nTo go back to the version before: ${back}`);
  }
}

async function uninstall(machine: Machine, purge: boolean): Promise<void> {
  if (machine.isThisMachine && machine.running) {
    machine.systemctl('disable', '--now', ...units);
    await endSandboxes(machine, purge);
  } else if (machine.running) {
    machine.systemctl('disable', ...units);
  }
  for (const unit of units) fs.rmSync(path.join(machine.units, unit), { force: true });
  say(`Removing the files of the platform${purge ? ', its data, caches and settings' : ''}`);
  fs.rmSync(machine.programs, { recursive: true, force: true });
  const kept = [machine.settings, machine.data, machine.cache];
  if (purge) {
    for (const folder of kept) fs.rmSync(folder, { recursive: true, force: true });
    for (const unit of units) fs.rmSync(path.join(machine.units, `${unit}.d`), { recursive: true, force: true });
    removeUser(machine);
  } else
    say(`These stay, and the next install goes on with them: ${kept.filter((each) => fs.existsSync(each)).join(' ')}`);
  if (!machine.isThisMachine) return;
  machine.systemctl('daemon-reload');
  // Fails when no unit has failed.
  spawnSync('systemctl', ['reset-failed', ...units], { stdio: 'ignore' });
}

const unitOf = (name: string) => `sandbox-platform-${name}.service`;
const logUnits = (names: string[]) => (names.length > 0 ? 'sandbox-platform-*' : 'sandbox-platform');

/**
 * Copies this folder to one with its version as its name. The running one, of the same version, is never changed.
 * @returns the new folder
 */
function copyPlatform(machine: Machine): string {
  const { version } = JSON.parse(fs.readFileSync(path.join(source, 'package.json'), 'utf8'));
  const places = [version, `${version}-2`].map((name) => path.join(machine.programs, name));
  const folder = places.find((place) => place !== machine.running)!;
  say(`Copying ${source} to ${folder}`);
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  const parts = fs.readdirSync(source).filter((name) => !leftOut.includes(name));
  execFileSync('cp', ['--archive', '--no-preserve=ownership', '--', ...parts, folder], { cwd: source });
  // A user other than root runs some of the processes.
  execFileSync('chmod', ['--recursive', 'u+rwX,go+rX,go-w', folder]);
  return folder;
}

/** Installs what the new folder still lacks on this machine: system packages, Temporal, images. */
function setUp(machine: Machine, folder: string, hasOwnServers: boolean): void {
  if (!machine.isThisMachine) return;
  const node = path.join(folder, 'node_modules/node/bin/node');
  const env = { ...process.env, ...machine.readSettings() };
  // With an address, no Temporal is installed.
  if (hasOwnServers) env.TEMPORAL_ADDRESS ||= 'not known yet';
  const { status } = spawnSync(node, [path.join(folder, 'ops/setup/main.mjs')], { cwd: folder, env, stdio: 'inherit' });
  if (status !== 0)
    throw new ServiceError('The set-up failed. Nothing was changed but the new folder; run this again.');
}

function copyUnits(machine: Machine): void {
  fs.mkdirSync(machine.units, { recursive: true });
  for (const unit of units) fs.copyFileSync(path.join(unitFiles, unit), path.join(machine.units, unit));
}

/** Links the folder of the version that runs from now on, in one step. */
function switchTo(machine: Machine, folder: string): void {
  const draft = `${machine.current}.new`;
  fs.rmSync(draft, { force: true });
  fs.symlinkSync(path.basename(folder), draft);
  fs.renameSync(draft, machine.current);
}

function versions(machine: Machine): string[] {
  const entries = fs.readdirSync(machine.programs, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => path.join(machine.programs, name));
}

/** Waits until the unit is ready. */
function start(unit: string): void {
  say(`Starting ${unit}`);
  const { status } = spawnSync('systemctl', ['restart', unit], { stdio: 'inherit' });
  if (status !== 0) throw new ServiceError(`${unit} did not start. Its log: journalctl --unit '${unit}'`);
}

/** @returns what is wrong with the settings of a machine's processes; null: nothing */
function wrongSettings(machine: Machine): string | null {
  try {
    loadSettings(machine.readSettings());
    return null;
  } catch (error) {
    if (error instanceof SettingsError) return error.message;
    throw error;
  }
}

const settingsText = (
  names: string[],
) => `# Settings of the platform: docs/settings.md. One NAME=value a line, with quotes around a value that has spaces.
# A change applies from the next start: systemctl restart ${names.length > 0 ? someProcesses : wholePlatform}
`;

/**
 * Ends the processes of all sandboxes, as a reboot does, and removes the network and the control groups that the host
 * worker has left for them.
 * @param purge also remove their disks
 */
async function endSandboxes(machine: Machine, purge: boolean): Promise<void> {
  // Neither a key nor a database is used here, and the settings may lack them.
  const unused = { PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'), DATABASE_URL: 'none' };
  const settings = loadSettings({ ...unused, ...machine.readSettings(), PLATFORM_WARM_POOL_SIZE: '0' });
  if (settings.PLATFORM_DRIVER !== 'oci' || !fs.existsSync(path.join(settings.PLATFORM_DATA_DIR, 'oci'))) return;
  say('Ending the processes of sandboxes');
  // Imported on demand, because this loads slowly.
  const { prepareHostDriver } = await import('../../runtime/choose-driver.ts');
  const openDriver = await prepareHostDriver(settings, {
    hostServicePorts: [],
    openServers: [],
    ownServices: async () => [],
    logger: pino({ level: 'warn' }),
  });
  const driver = await openDriver();
  for (const { sandboxId } of await driver.list()) await driver.stop(sandboxId);
  await driver.close();
  if (purge) await driver.reconcile([]);
  await driver.leaveIfEmpty();
}

function removeUser(machine: Machine): void {
  const passwd = path.join(machine.root, 'etc/passwd');
  if (!fs.existsSync(passwd) || !fs.readFileSync(passwd, 'utf8').includes(`${user}:`)) return;
  execFileSync('userdel', [...(machine.isThisMachine ? [] : ['--prefix', machine.root]), user]);
}

const { values, positionals } = parseArgs({
  options: { root: { type: 'string', default: '/' }, purge: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const [command, ...names] = positionals;
try {
  const machine = new Machine(path.resolve(values.root));
  if (process.getuid!() !== 0) throw new ServiceError('Run this as root.');
  if (machine.isThisMachine && !fs.existsSync('/run/systemd/system')) {
    throw new ServiceError('This machine does not run systemd. Use npm start, or docker-compose.yml.');
  }
  if (command === 'install') await install(machine, names);
  else if (command === 'upgrade') await upgrade(machine);
  else if (command === 'uninstall') await uninstall(machine, values.purge);
  else throw new ServiceError(usage);
} catch (error) {
  console.error(error instanceof ServiceError ? error.message : error);
  process.exitCode = 1;
}
