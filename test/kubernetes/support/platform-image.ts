import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { ownArchitecture } from '../../../integrations/registry/own-architecture.ts';
import { programsFor } from '../../../platform/config/programs.mjs';
import { madeOnce } from '../../support/made-once.ts';
import { computeDigest, putManifest } from '../../support/pushed-image.ts';
import { hasSamePackages, writeSourceTree } from '../../support/source-tree.ts';
import { tar } from '../../support/tar-layer.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const run = promisify(execFile);
const tarLayer = 'application/vnd.oci.image.layer.v1.tar';

const ociManifest = 'application/vnd.oci.image.manifest.v1+json';

interface Described {
  digest: string;
  size: number;
}

interface FileLayer extends Described {
  file: string;
}

interface Manifest {
  mediaType: string;
  config: Described & { mediaType: string };
  layers: (Described & { mediaType: string })[];
}

/**
 * Builds the image of the Dockerfile without Docker Hub, and pushes it as `sandbox-platform:<tag>`. The layer below the
 * application is a Debian of the Dockerfile's release with the packages that the Dockerfile installs. The commands of
 * the build stage come from the Dockerfile. Instead of `npm ci`, the packages of this folder are copied if they are the
 * same.
 * @param options.registry host and port of a registry without TLS
 * @param options.folder a folder for temporary files
 * @param options.commit the commit of the code; null for the code of this folder
 */
export async function pushPlatformImage(options: {
  registry: string;
  folder: string;
  tag: string;
  commit: string | null;
}): Promise<void> {
  const { registry, folder, tag, commit } = options;
  const origin = `http://${registry}`;
  const tree = path.join(folder, `image-${tag}`);
  const dockerfile = await buildApplication(tree, commit);
  const application = path.join(folder, `${tag}.tar`);
  const modes = ['--owner=0', '--group=0', '--mode=u+rwX,go+rX', '--transform=s,^\\.,./app,S'];
  await run('tar', ['--create', '--file', application, ...modes, '--directory', tree, '.']);
  fs.rmSync(tree, { recursive: true });
  const layers = [await fileLayer(await debianWithPackages()), await fileLayer(application)];
  for (const layer of layers) await pushFile(origin, layer);
  await putImage(origin, tag, parseSettings(dockerfile), layers);
  fs.rmSync(application);
}

/** Pushes the image of a tag again with another tag and version number, so that an upgrade sees a different image. */
export async function pushAsVersion(options: {
  registry: string;
  folder: string;
  of: string;
  tag: string;
  version: string;
}): Promise<void> {
  const origin = `http://${options.registry}`;
  const repository = `${origin}/v2/sandbox-platform`;
  const read = async (of: string) => (await fetch(`${repository}/${of}`, { headers: { accept: ociManifest } })).json();
  const manifest = (await read(`manifests/${options.of}`)) as Manifest;
  const { config } = (await read(`blobs/${manifest.config.digest}`)) as { config: object };
  const own = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'));
  const content = Buffer.from(JSON.stringify({ ...own, version: options.version }));
  const file = path.join(options.folder, `${options.tag}.tar`);
  fs.writeFileSync(file, tar([{ name: 'app/package.json', content, mode: 0o644 }]));
  const layer = await fileLayer(file);
  await pushFile(origin, layer);
  await putImage(origin, options.tag, config, [...manifest.layers, layer]);
}

async function putImage(origin: string, tag: string, config: object, layers: readonly Described[]): Promise<void> {
  const whole = {
    architecture: ownArchitecture,
    os: 'linux',
    config,
    // No layer is compressed.
    rootfs: { type: 'layers', diff_ids: layers.map(({ digest }) => digest) },
  };
  const bytes = Buffer.from(JSON.stringify(whole));
  const described = { digest: computeDigest(bytes), size: bytes.length };
  await pushBlob(origin, described.digest, new Blob([bytes]));
  const manifest: Manifest & { schemaVersion: number } = {
    schemaVersion: 2,
    mediaType: ociManifest,
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...described },
    layers: layers.map(({ digest, size }) => ({ mediaType: tarLayer, digest, size })),
  };
  await putManifest(origin, 'sandbox-platform', tag, manifest);
}

/** Makes the root file system of a Debian with the platform's packages. @returns the tar file */
async function debianWithPackages(): Promise<string> {
  const packages = [...new Set(Object.values(programsFor('host')))].sort().join(',');
  const made = await madeOnce('test-platform-debian', [packages], async (folder) => {
    const file = path.join(folder, 'root.tar');
    const words = ['--quiet', '--mode=root', '--variant=minbase', `--include=${packages}`];
    await run('mmdebstrap', [...words, '--aptopt=Apt::Install-Recommends "false"', 'bookworm', file]);
  });
  return path.join(made, 'root.tar');
}

/** Builds the folder `/app` of the Dockerfile's first stage. @returns the text of the Dockerfile */
async function buildApplication(tree: string, commit: string | null): Promise<string> {
  await writeSourceTree(tree, commit);
  const dockerfile = fs.readFileSync(path.join(tree, 'Dockerfile'), 'utf8');
  const ignored = fs.readFileSync(path.join(tree, '.dockerignore'), 'utf8').trim().split('\n');
  for (const name of fs.globSync(ignored, { cwd: tree })) {
    fs.rmSync(path.join(tree, name), { recursive: true, force: true });
  }
  if (hasSamePackages(tree)) await copyPackages(path.join(tree, 'node_modules'));
  else await run('npm', ['ci'], { cwd: tree });
  const [, afterCopy] = /\nCOPY \. \.\n([\s\S]*?)\nFROM /.exec(dockerfile)!;
  const steps = afterCopy!
    .replaceAll(/^#.*\n/gm, '')
    .split(/^RUN /m)
    .filter((step) => step.trim());
  const env = { ...process.env, NODE_OPTIONS: '', npm_config_offline: 'true', npm_config_audit: 'false' };
  for (const step of steps) await run('sh', ['-ec', step], { cwd: tree, env });
  return dockerfile;
}

/**
 * Copies the packages as hard links. A later removal by npm affects only the copy. The one file that npm writes is a
 * real copy.
 */
async function copyPackages(target: string): Promise<void> {
  const source = path.join(root, 'node_modules');
  await run('cp', ['--archive', '--link', source, target]);
  const list = '.package-lock.json';
  fs.rmSync(path.join(target, list));
  fs.copyFileSync(path.join(source, list), path.join(target, list));
}

/** The settings of the Dockerfile for the container's process. */
function parseSettings(dockerfile: string): object {
  const instructed = (instruction: string) => new RegExp(`^${instruction} (.*)$`, 'm').exec(dockerfile)![1]!;
  const systemPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  return {
    Env: instructed('ENV').replace('$PATH', systemPath).split(' '),
    WorkingDir: instructed('WORKDIR'),
    Entrypoint: JSON.parse(instructed('ENTRYPOINT')),
    Cmd: JSON.parse(instructed('CMD')),
  };
}

async function fileLayer(file: string): Promise<FileLayer> {
  const hash = createHash('sha256');
  await pipeline(fs.createReadStream(file), hash);
  return { file, digest: `sha256:${hash.digest('hex')}`, size: fs.statSync(file).size };
}

async function pushFile(origin: string, { file, digest }: FileLayer): Promise<void> {
  await pushBlob(origin, digest, await fs.openAsBlob(file));
}

async function pushBlob(origin: string, digest: string, body: Blob): Promise<void> {
  const begun = await fetch(`${origin}/v2/sandbox-platform/blobs/uploads/`, { method: 'POST' });
  const place = new URL(begun.headers.get('location')!, origin);
  place.searchParams.set('digest', digest);
  const reply = await fetch(place, { method: 'PUT', body });
  if (reply.status !== 201) throw new Error(`a blob of the platform's image: ${reply.status} ${await reply.text()}`);
}
