import fs from 'node:fs';
import path from 'node:path';
import { packageManager } from '../../platform/config/package-manager.mjs';
import { isInstalled, packagesOf } from '../../platform/config/programs.mjs';
import { diskLimits } from '../../runtime/disk/disk-limits.mjs';
import { machineProblems, machineWarnings, withoutMmdebstrap } from '../../runtime/machine/problems.mjs';
import { isPortFree, portTakenText } from '../local-stack/embedded/port-probe.mjs';
import { listenAddress, usualPorts } from '../local-stack/supervisor/listened-ports.mjs';
import { imageTitle } from './builtin-images.mjs';
import { report, SetupError } from './progress.mjs';

/** The size of a new data folder: mainly Postgres. */
const dataFolderMb = 300;

/**
 * Checks the machine before anything is installed.
 * @param {string} root
 * @param {readonly import('./progress.mjs').Step[]} steps
 * @throws {SetupError} with everything that is wrong
 */
export async function requireMachine(root, steps) {
  const hasSandboxes = process.env.PLATFORM_DRIVER !== 'kubernetes';
  const dataDir = path.resolve(root, process.env.PLATFORM_DATA_DIR || '.data');
  const missing = await findMissing(steps);
  const problems = [
    ...(hasSandboxes ? machineProblems() : []),
    ...diskProblems(
      missing.flatMap((step) => step.disk ?? []),
      fs.existsSync(dataDir) ? [] : [dataDir],
    ),
    ...(await portProblems()),
    ...(missing.some(({ title }) => title === imageTitle('base')) && !canGetBaseImage() ? [withoutMmdebstrap] : []),
  ];
  if (problems.length > 0) {
    const lines = problems.map((problem) => `  - ${problem}`);
    throw new SetupError(`The platform cannot run on this machine yet. Nothing was installed.\n${lines.join('\n')}`);
  }
  if (hasSandboxes) for (const warning of machineWarnings()) report(`Note: ${warning}`);
}

function canGetBaseImage() {
  const family = packageManager()?.family ?? 'debian';
  const program = 'mmdebstrap';
  return Boolean(process.env.PLATFORM_BASE_IMAGE) || isInstalled(program) || packagesOf([program], family).length > 0;
}

/** The steps that will run. One that needs the result of another cannot be looked at before. */
async function findMissing(steps) {
  const missing = [];
  const isMissing = (title) => missing.some((step) => step.title === title);
  for (const step of steps) if ((step.needs ?? []).some(isMissing) || !(await step.isDone())) missing.push(step);
  return missing;
}

/**
 * File systems with too little space.
 * @param {readonly {folder: string, mb: number}[]} needs what will be written
 * @param {readonly string[]} dataDirs data folders that do not exist yet; sandboxes start only above a reserve there
 * @returns {string[]}
 */
export function diskProblems(needs, dataDirs = []) {
  /** @type {Map<number, {folder: string, bytes: number, free: number}>} */
  const disks = new Map();
  const find = (folder) => {
    const { dev } = fs.statSync(nearest(folder));
    const { bavail, bsize } = fs.statfsSync(nearest(folder));
    if (!disks.has(dev)) disks.set(dev, { folder, bytes: 0, free: bavail * bsize });
    return disks.get(dev);
  };
  for (const { folder, mb } of needs) find(folder).bytes += mb * 1024 ** 2;
  for (const folder of dataDirs) {
    const { blocks, bsize, files } = fs.statfsSync(nearest(folder));
    find(folder).bytes += dataFolderMb * 1024 ** 2 + diskLimits(blocks * bsize, files).admitBytes;
  }
  return [...disks.values()]
    .filter(({ bytes, free }) => free < bytes)
    .map(
      ({ folder, bytes, free }) =>
        `The disk of ${folder} has ${gb(free)} GB free, and ${gb(bytes)} GB are needed there. Make room, or set PLATFORM_CACHE_DIR and PLATFORM_DATA_DIR to folders on a larger disk.`,
    );
}

/** @param {number} bytes */
const gb = (bytes) => (bytes / 1024 ** 3).toFixed(1);

/** The folder, or the nearest one above it that exists. @param {string} folder */
const nearest = (folder) => (fs.existsSync(folder) ? folder : nearest(path.dirname(folder)));

/** Ports in settings that another program uses. A start without these settings finds free ones. */
export async function portProblems(env = process.env) {
  const problems = [];
  for (const name of Object.keys(usualPorts)) {
    const port = Number(env[name]);
    // The start refuses wrong numbers.
    if (!Number.isInteger(port) || port < 1 || port > 65_535) continue;
    const address = listenAddress(name, env);
    if (!(await isPortFree(port, address))) {
      problems.push(`${portTakenText(name, port, address)}. Stop the program that uses it, or set another port.`);
    }
  }
  return problems;
}
