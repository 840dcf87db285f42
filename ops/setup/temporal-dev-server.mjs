import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runCommand } from './command.mjs';
import { projectNode } from './npm-packages.mjs';
import { SetupError } from './progress.mjs';
import { temporalDevServer, versions } from './toolchain/locations.mjs';

/** The address from which Temporal's own SDKs download it. */
const defaultArchive = 'https://temporal.download/cli/archive';

/**
 * Downloads Temporal's CLI, which contains a development server with SQLite and the Web UI.
 * `PLATFORM_TEMPORAL_DOWNLOAD` sets a mirror.
 * @param {string} root
 */
export async function downloadDevServer(root) {
  const { dir } = temporalDevServer();
  const archive = process.env.PLATFORM_TEMPORAL_DOWNLOAD || defaultArchive;
  const arch = process.arch === 'arm64' ? 'arm64' : 'amd64';
  const url = `${archive}/v${versions.temporal.cli}?platform=linux&arch=${arch}`;
  const unfinished = `${dir}.unfinished`;
  const tarball = path.join(unfinished, 'temporal.tar.gz');
  console.log(`    no Go from ${versions.goMinimum} on to build the server with: downloading ${url}`);
  try {
    fs.rmSync(unfinished, { recursive: true, force: true });
    fs.mkdirSync(unfinished, { recursive: true });
    // The project's Node supports the proxy variables and the system's certificates; an older one may not.
    const download = fileURLToPath(new URL('./download.mjs', import.meta.url));
    await runCommand(projectNode(root), ['--use-env-proxy', '--use-system-ca', download, url, tarball], {
      what: 'downloading Temporal',
    });
    await runCommand('tar', ['--extract', '--gzip', '--file', tarball, '--directory', unfinished, 'temporal']);
    fs.rmSync(tarball);
    fs.renameSync(unfinished, dir);
  } catch (cause) {
    throw new SetupError(
      `Temporal could not be downloaded. ${cause.message.trimEnd().split('\n').at(-1)}\n` +
        `Install Go ${versions.goMinimum} or newer (https://go.dev/dl) to have it built; or set PLATFORM_TEMPORAL_DOWNLOAD to a mirror of ${defaultArchive},\n` +
        'or TEMPORAL_ADDRESS to a Temporal server that you have. The next start goes on from here.',
      { cause },
    );
  } finally {
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}
