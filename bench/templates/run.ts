import { createHash } from 'node:crypto';
import { createReadStream, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { registryImage } from '../../domain/templates/image.ts';
import { pushImage } from '../../integrations/registry/image-push.ts';
import { PlatformRegistry } from '../../integrations/registry/platform-registry.ts';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { ensureBaseImage } from '../../runtime/images/base-image.ts';
import { makeImageOnce } from '../../runtime/images/image-cache.ts';
import { RegistryPull } from '../../runtime/images/registry-pull.ts';
import { runCommand } from '../../runtime/process/command.ts';
import { cacheDir, LocalHost, shell } from '../../test/runtime/local-host.ts';
import { forgetImage, LoopbackRegistry } from '../../test/support/loopback-registry.ts';
import { ociLayer, pushImage as pushRaw } from '../../test/support/pushed-image.ts';
import { until } from '../../test/support/until.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';

/** Compares images of templates with the bare tools on the same image in the same run. `npm run bench -- templates` */
const rounds = 3;
const creates = 8;
const changedMb = 100;
const folder = mkdtempSync(path.join(os.tmpdir(), 'bench-templates-'));
const server = await LoopbackRegistry.start(folder);
const open = { username: null, passwordFile: null, caFile: null };
const registry = { address: server.address, insecureHttp: true, ...open };
const pull = new RegistryPull(registry);
const platformRegistry = PlatformRegistry.of({
  PLATFORM_REGISTRY: server.address,
  PLATFORM_REGISTRY_INSECURE_HTTP: true,
} as Parameters<typeof PlatformRegistry.of>[0])!;
const limits = { maxBytes: 8 * 1024 ** 3, maxFiles: 1_000_000 };
const never = new AbortController().signal;
const rows: Row[] = [];
let digest = '';
try {
  digest = await pushLargeImage();
  await benchFirst();
  await benchSecond();
  await benchCreateTemplate();
  printTable('Templates', rows);
} finally {
  pull.close();
  platformRegistry.close();
  await server.stop();
  forgetImage(digest);
  rmSync(folder, { recursive: true, force: true });
}

/** The base image's files in four gzip layers, about 200 MB unpacked with the additions. */
async function pushLargeImage(): Promise<string> {
  const { rootfs } = await ensureBaseImage({ cacheDir: cacheDir() });
  const layers = [];
  // umoci needs the digest of each unpacked layer.
  const diffIds: string[] = [];
  for (const part of ['--exclude=./usr .', 'usr/bin usr/sbin', 'usr/share', 'usr/lib*']) {
    const file = path.join(folder, 'layer.tar.gz');
    const script = `cd "$1"; tar -c ${part} | tee "$2.tar" | gzip -3 >"$2"; sha256sum <"$2.tar"; rm "$2.tar"`;
    diffIds.push(`sha256:${(await runCommand('sh', ['-c', script, 'sh', rootfs, file])).slice(0, 64)}`);
    layers.push({ bytes: readFileSync(file), mediaType: ociLayer });
  }
  const pushed = await pushRaw(`http://${server.address}`, 'bench/large', {
    layers,
    config: { rootfs: { type: 'layers', diff_ids: diffIds } },
  });
  const bytes = Number((await runCommand('du', ['-s', '-B1', rootfs])).split('\t', 1)[0]);
  const sizes = [bytes, pushed.sizeBytes].map((size) => `${(size / 1e6).toFixed(0)} MB`);
  rows.push({ measure: 'the image: unpacked, compressed', value: sizes.join(', '), unit: '' });
  return pushed.digest;
}

async function benchFirst(): Promise<void> {
  const [ours, tools]: number[][] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    const target = await mkdtemp(path.join(folder, 'round-'));
    tools!.push(
      await timed(async () => {
        const source = `docker://${server.address}/bench/large@${digest}`;
        const layout = path.join(target, 'layout');
        await runCommand('skopeo', ['copy', '-q', '--src-tls-verify=false', source, `oci:${layout}:image`]);
        await runCommand('umoci', ['raw', 'unpack', '--image', `${layout}:image`, path.join(target, 'rootfs')]);
      }),
    );
    const make = (draft: string) => pull.pull({ path: 'bench/large', digest }, draft, limits);
    ours!.push(await timed(() => makeImageOnce({ cacheDir: target, digest, make })));
    await rm(target, { recursive: true });
  }
  const [mine, theirs] = [summarize(ours!), summarize(tools!)];
  rows.push(
    { measure: 'skopeo copy, umoci unpack', value: theirs, unit: 'ms' },
    { measure: 'pull, verify, unpack, sync', value: mine, unit: 'ms', goal: holdAgainst(mine.p50, theirs.p50, 'ms') },
  );
}

/** Compares the first sandbox of the image, the next ones, and those of the base image. */
async function benchSecond(): Promise<void> {
  const host = await LocalHost.open({ registry, registryInsecureHttp: true, warmPoolSize: 2, warmPoolMaxSize: 4 });
  try {
    const image = registryImage('bench/large', digest);
    const first = host.spec({ image, storageGb: 10 });
    const firstMs = await timed(() => host.driver.create(first));
    const ofImage = async (reference: string) => {
      await until(() => host.countReady(reference) > 0, 120_000, 20);
      const spec = host.spec({ image: reference, storageGb: 10 });
      const took = await timed(async () => {
        const { from } = await host.driver.create(spec);
        if (from !== 'pool') throw new Error(`the sandbox came from ${from}`);
      });
      await host.driver.remove(spec.sandboxId);
      return took;
    };
    const own = summarize(await inTurn(creates, () => ofImage(image)));
    const base = summarize(await inTurn(creates, () => ofImage('builtin:base')));
    rows.push(
      { measure: 'first sandbox from it', value: firstMs.toFixed(0), unit: 'ms' },
      { measure: 'sandbox of the base image', value: base, unit: 'ms' },
      { measure: 'second sandbox from it', value: own, unit: 'ms', goal: holdAgainst(own.p50, base.p50 * 1.1, 'ms') },
    );
  } finally {
    await host.close();
  }
}

async function benchCreateTemplate(): Promise<void> {
  const host = await LocalHost.open({ registry, registryInsecureHttp: true });
  try {
    const image = registryImage('bench/large', digest);
    const spec = host.spec({ image, storageGb: 4, memoryMb: 512 });
    const place = await host.driver.create(spec);
    const [ours, tools, frozenTimes]: number[][] = [[], [], []];
    for (let round = 0; round < rounds; round += 1) {
      await change(spec, place, round);
      const upper = `/proc/${readShimPid(host, spec.sandboxId)}/root/mnt/disk/upper`;
      tools!.push(await timed(() => byTools(upper, round)));
      ours!.push(
        await timed(async () => {
          const buildId = `tpl-bench${round}`;
          const { frozenMs } = await host.driver.builds.copyDisk(buildId, spec.sandboxId);
          frozenTimes!.push(frozenMs);
          const layer = await host.driver.builds.packChanges(buildId, 'acc-test');
          const to = { path: `bench/made${round}`, tag: 'latest' };
          await pushImage(platformRegistry, { base: { path: 'bench/large', digest }, layer, to }, never);
          await host.driver.builds.discard(buildId);
        }),
      );
    }
    const [mine, theirs, stood] = [summarize(ours!), summarize(tools!), summarize(frozenTimes!)];
    rows.push(
      { measure: `tar, gzip, push of ${changedMb} MB of changes`, value: theirs, unit: 'ms' },
      { measure: 'create-template', value: mine, unit: 'ms', goal: holdAgainst(mine.p50, theirs.p50 * 1.3, 'ms') },
      { measure: '… standing still', value: stood, unit: 'ms', goal: holdAgainst(stood.max, 1000, 'ms') },
    );
  } finally {
    await host.close();
  }
}

/** Writes new files each time. Half of the data can be compressed. */
async function change(spec: SandboxSpec, place: SandboxPlace, round: number): Promise<void> {
  const half = changedMb / 2;
  const script = `rm -rf /opt/changes; mkdir /opt/changes; cd /opt/changes
    head -c ${half}M /dev/urandom >random-${round}
    for at in $(seq ${half * 4}); do seq ${round} 36000 | head -c 256K >text-$at; done; sync`;
  const { exitCode, output } = await shell(place, spec, script, 120);
  if (exitCode !== 0) throw new Error(output);
}

function readShimPid(host: LocalHost, sandboxId: string): string {
  return readFileSync(path.join(host.dataDir, 'oci/sandboxes', sandboxId, 'pids'), 'latin1').split(' ', 1)[0]!;
}

async function byTools(upper: string, round: number): Promise<void> {
  const file = path.join(folder, 'changes.tar.gz');
  await runCommand('sh', ['-c', 'tar -C "$1" -c . | gzip >"$2"', 'sh', upper, file]);
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  const target = platformRegistry.uploadTo(`bench/tools${round}`, []);
  const parts = createReadStream(file, { highWaterMark: 16 * 1024 * 1024 });
  await target.pushBlob(`sha256:${hash.digest('hex')}`, parts, never);
  if (statSync(file).size === 0) throw new Error('tar packed nothing');
}
