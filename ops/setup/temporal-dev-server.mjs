import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runCommand } from './command.mjs';
import { projectNode } from './npm-packages.mjs';
import { report } from './progress.mjs';
import { temporalDevServer, versions } from './toolchain/locations.mjs';

/** The releases of Temporal's CLI. */
const defaultReleases = 'https://github.com/temporalio/cli/releases/download';
/** Four times the size of the archive. */
const maxArchiveBytes = 200 * 1024 ** 2;

/**
 * Downloads Temporal's CLI, which contains a development server with SQLite and the Web UI. `PLATFORM_TEMPORAL_DOWNLOAD`
 * sets a mirror with the same files. Nothing is unpacked before its checksum was compared.
 * @param {string} root
 * @param {string} [sha256] of the archive; by default that of the release
 * @throws {import('./progress.mjs').SetupError} whose last line is the reason
 */
export async function downloadDevServer(root, sha256 = releaseChecksum()) {
  const { dir } = temporalDevServer();
  const releases = process.env.PLATFORM_TEMPORAL_DOWNLOAD || defaultReleases;
  const { cli } = versions.temporal;
  const url = `${releases}/v${cli}/temporal_cli_${cli}_linux_${architecture()}.tar.gz`;
  const unfinished = `${dir}.unfinished`;
  const tarball = path.join(unfinished, 'temporal.tar.gz');
  report(`downloading ${url}`);
  try {
    fs.rmSync(unfinished, { recursive: true, force: true });
    fs.mkdirSync(unfinished, { recursive: true });
    const download = fileURLToPath(new URL('./download.mjs', import.meta.url));
    const words = [download, url, tarball, sha256, `${maxArchiveBytes}`];
    await runCommand(projectNode(root), ['--use-system-ca', ...words], { what: 'downloading Temporal' });
    const unpack = ['--extract', '--gzip', '--no-same-owner', '--file', tarball, '--directory', unfinished, 'temporal'];
    await runCommand('tar', unpack);
    fs.rmSync(tarball);
    fs.renameSync(unfinished, dir);
  } finally {
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}

const architecture = () => (process.arch === 'arm64' ? 'arm64' : 'amd64');

/** Of the file `checksums.txt` of the same release. */
const releaseChecksum = () => versions.temporal.cliSha256[architecture()];
