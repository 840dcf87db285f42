import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { KubeConfig, V1Pod } from '@kubernetes/client-node';
import pLimit from 'p-limit';
import { z } from 'zod';
import type { AccountId, SandboxId } from '../../domain/ids.ts';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../platform/config/readable-document.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import { type DiskCopy, DriverError, type ImageBuilds, type PackedImage, type PackedLayer } from '../driver.ts';
import { defaultImageLimits } from '../images/image-store.ts';
import { maxLayerFiles } from '../images/pack-layer.ts';
import { writeLayer } from '../images/write-layer.ts';
import { buildBuilderPod, buildDisk, buildLabel, buildStage } from './build-manifests.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { type ImageFacts, readImageFacts } from './image-facts.ts';
import { type ArchiveLimits, ArchiveRefusedError, LayerArchive } from './layer-archive.ts';
import { buildClosedPolicy, nodeWords } from './manifests.ts';
import { annotations, isFrozen, labels, sandboxContainer } from './names.ts';
import type { KubernetesDriverOptions } from './options.ts';
import { type PodCommand, PodCommandError, startPodCommand } from './pod-command.ts';
import { findAddress, findStartFailure } from './pod-state.ts';
import { parseBytes } from './quantities.ts';
import { whileFrozen } from './while-frozen.ts';

/** The limit of layers that are fetched at the same time. Each keeps a processor busy. */
const maxConcurrentFetches = 2;
/** The longest time for which a build may stop the processes of a sandbox. After it the build fails. */
const maxFrozenSeconds = 120;
const scanSeconds = 300;
const fetchSeconds = 1800;
/** The workflow of a build that was not discarded within this time is gone. */
const forgottenMs = 24 * 3600 * 1000;
/** Additional space on the node for the names of the files. */
const stageExtraBytes = 512 * 1024 ** 2;
const refusedExitCode = 3;
const maxEnvironmentBytes = 256 * 1024;
const env = '/.platform/bin/env';
/** Variables that are not the image's. The container runtime sets `HOME` if the image does not. */
const clusterVariable = /^(HOSTNAME|KUBERNETES_[A-Z_0-9]*)=|^HOME=\/(root)?$/;

const layerSchema = z.object({
  file: z.string(),
  mediaType: z.string(),
  digest: z.string(),
  size: z.number(),
  diffId: z.string(),
});

/** The functions and objects that builds use from the driver. */
interface BuildHost {
  config: KubeConfig;
  cluster: Cluster;
  watch: ClusterWatch;
  options: KubernetesDriverOptions;
  /** The folder for layers on this machine. */
  folder: string;
  podStartSeconds: number;
  /** The pod of a sandbox that is running or frozen. Null: the sandbox has no such pod. */
  findPod(sandboxId: SandboxId): V1Pod | null;
  /** @param image the reference by which nodes pull the image */
  readFacts(image: string, signal: AbortSignal): Promise<ImageFacts>;
  /** Runs work while no other work on the sandbox runs. The end of the sandbox cancels the work. */
  alone<Result>(
    sandboxId: SandboxId,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result>;
}

/**
 * Makes image layers of the files that sandboxes have changed. A pod of the sandbox's image, on the sandbox's node,
 * reads the disk and packs the changes. This process checks the archive, because it comes from a tenant's disk.
 */
export class ClusterImageBuilds implements ImageBuilds {
  readonly #host: BuildHost;
  readonly #fetches = pLimit(maxConcurrentFetches);
  /** The names of the pods that this process uses now. */
  readonly #pods = new Set<string>();

  constructor(host: BuildHost) {
    this.#host = host;
  }

  /** Removes the folders of builds whose workflows are gone. */
  async open(): Promise<void> {
    const { folder } = this.#host;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    for (const name of await readdir(folder)) {
      const each = path.join(folder, name);
      if (Date.now() - (await stat(each)).mtimeMs > forgottenMs) await rm(each, { recursive: true, force: true });
    }
  }

  async copyDisk(buildId: string, sandboxId: SandboxId, callersSignal?: AbortSignal): Promise<DiskCopy> {
    const folder = this.#buildFolder(buildId);
    if (await readLayer(folder, 'changes')) return { frozenMs: 0, bytes: 0 };
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const { host, signal } = { host: this.#host, signal: callersSignal ?? never };
    try {
      const running = this.#requirePod(sandboxId);
      const disk = host.watch.findDisk(sandboxId);
      const { folders } = readImageFacts(disk?.metadata?.annotations?.[annotations.image] ?? '');
      const diskBytes = parseBytes(disk?.spec?.resources?.requests?.storage ?? '0');
      const limits = { maxFiles: maxLayerFiles, maxBytes: diskBytes, folders: new Set(folders) };
      const of = {
        buildId,
        image: imageThatRuns(running),
        sandbox: { id: sandboxId, disk: disk?.metadata?.name ?? sandboxId, node: running.spec!.nodeName! },
        stageBytes: diskBytes + stageExtraBytes,
      };
      return await this.#withPod(of, signal, async (name) => {
        const pack = (act: 'look' | 'pack', seconds: number, until: AbortSignal) => {
          const words = [act, buildDisk, buildStage, `${maxLayerFiles}`, `${diskBytes}`, ...folders];
          return this.#do(name, nodeWords(['pack-changes.cjs', ...words]), seconds, until);
        };
        await pack('look', scanSeconds, signal);
        const frozenMs = await host.alone(sandboxId, signal, async (alive) => {
          const pod = this.#requirePod(sandboxId);
          if (pod.metadata!.uid !== running.metadata!.uid) throw packedNothing('the sandbox has started again');
          if (isFrozen(pod)) {
            await pack('pack', scanSeconds, alive);
            return 0;
          }
          // `never` lets the command survive an abort, because it must let the processes continue afterwards.
          const inSandbox = (words: string[]) => this.#start(pod.metadata!.name!, isolated(words), never);
          const work = () => pack('pack', maxFrozenSeconds, alive);
          return (await whileFrozen(inSandbox, maxFrozenSeconds + 10, work)).frozenMs;
        });
        const words = isolated(['/.platform/bin/cp', `${buildStage}/changes.tar`, '/dev/stdout']);
        const bytes = await this.#fetch(name, words, folder, 'changes', limits, signal);
        return { frozenMs, bytes };
      });
    } catch (error) {
      throw toBuildFailure(error, signal);
    }
  }

  /** As `ImageBuilds.packChanges`. `copyDisk` has already packed the layer. */
  async packChanges(buildId: string): Promise<PackedLayer> {
    const layer = await readLayer(this.#buildFolder(buildId), 'changes');
    if (!layer) throw new DriverError('snapshot_failed', 'The copy of the disk is gone from this host');
    return layer;
  }

  async packImage(buildId: string, image: string, _accountId: AccountId, given?: AbortSignal): Promise<PackedImage> {
    const [signal, folder] = [given ?? never, this.#buildFolder(buildId)];
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const { options } = this.#host;
    try {
      const reference = options.resolveImage(image);
      const { user, cwd } = await this.#host.readFacts(reference, signal);
      const of = { buildId, image: reference, sandbox: null, stageBytes: stageExtraBytes };
      return await this.#withPod(of, signal, async (name) => {
        const config = {
          Env: await this.#readVariables(name, signal),
          ...(cwd !== '/' && { WorkingDir: cwd }),
          ...(user !== '0:0' && { User: user }),
        };
        const limits = { ...(options.imageLimits ?? defaultImageLimits), folders: null };
        const words = isolated(nodeWords(['pack-image.cjs', buildStage]));
        await this.#fetch(name, words, folder, 'image', limits, signal);
        return { layer: (await readLayer(folder, 'image'))!, config };
      });
    } catch (error) {
      throw toBuildFailure(error, signal);
    }
  }

  /** As `ImageBuilds.imageDigest`. A pod pulls the image now, and its status names the digest. */
  async imageDigest(image: string, given?: AbortSignal): Promise<string> {
    const [signal, reference] = [given ?? never, this.#host.options.resolveImage(image)];
    const pinned = digestIn(reference);
    if (pinned) return pinned;
    try {
      const of = { buildId: 'digest', image: reference, sandbox: null, stageBytes: stageExtraBytes };
      return await this.#withPod(of, signal, async (name) => {
        const digest = digestIn(imageThatRuns(this.#host.watch.pod(name)!));
        if (!digest) throw packedNothing(`the cluster names no digest of ${reference}`);
        return digest;
      });
    } catch (error) {
      throw toBuildFailure(error, signal);
    }
  }

  async discard(buildId: string): Promise<void> {
    await rm(this.#buildFolder(buildId), { recursive: true, force: true });
    await this.#endPods((pod) => pod.metadata!.labels![labels.build] === buildLabel(buildId));
  }

  /** Ends the builds that read the disk of a sandbox. The cluster deletes a disk only when no pod uses it. */
  async release(sandboxId: SandboxId): Promise<void> {
    await this.#endPods((pod) => pod.metadata!.labels![labels.buildOf] === sandboxId);
  }

  /** Ends the pods of builds of an earlier process. */
  async removeAbandoned(): Promise<void> {
    await this.#endPods((pod) => !this.#pods.has(pod.metadata!.name!));
  }

  async #endPods(isMeant: (pod: V1Pod) => boolean): Promise<void> {
    const { watch, cluster } = this.#host;
    const pods = watch.pods().filter((pod) => isOfBuild(pod) && isMeant(pod));
    await Promise.all(pods.map((pod) => cluster.deletePod(pod.metadata!.name!)));
  }

  /** Starts a pod for some work, and deletes it when the work ends. */
  async #withPod<Result>(
    of: Omit<Parameters<typeof buildBuilderPod>[0], 'name'>,
    signal: AbortSignal,
    work: (name: string) => Promise<Result>,
  ): Promise<Result> {
    const { cluster, watch, options, podStartSeconds } = this.#host;
    const name = `build-${randomBytes(8).toString('hex')}`;
    this.#pods.add(name);
    try {
      // The policy must exist before the pod starts.
      await cluster.applyPolicy(buildClosedPolicy(options), signal);
      await cluster.applyPod(buildBuilderPod({ ...of, name }, options), signal);
      const runs = () => {
        const pod = watch.pod(name);
        const failure = pod && findStartFailure(pod);
        if (failure) throw failure;
        return pod && findAddress(pod) ? true : undefined;
      };
      const late = () => packedNothing('the cluster did not start the pod of a build in time');
      await watch.until(name, runs, { seconds: podStartSeconds, late, signal });
      return await work(name);
    } finally {
      await cluster.deletePod(name);
      this.#pods.delete(name);
    }
  }

  /** The variables of the image, without those that the cluster adds. */
  async #readVariables(name: string, signal: AbortSignal): Promise<string[]> {
    const timed = AbortSignal.any([signal, AbortSignal.timeout(scanSeconds * 1000)]);
    const command = await this.#start(name, [env, '--null'], timed);
    let [words, bytes] = ['', 0];
    for await (const chunk of command.output) {
      bytes += chunk.length;
      if (bytes > maxEnvironmentBytes) throw new ArchiveRefusedError('too many variables');
      words += chunk.toString('latin1');
    }
    await command.ended;
    const variables = Buffer.from(words, 'latin1').toString('utf8').split('\0');
    return variables.filter((each) => /^[^=]+=/.test(each) && !clusterVariable.test(each));
  }

  /** Reads an archive from a pod and stores it as a layer. @returns the size of its files in bytes */
  async #fetch(
    pod: string,
    words: string[],
    folder: string,
    name: 'changes' | 'image',
    limits: ArchiveLimits,
    signal: AbortSignal,
  ): Promise<number> {
    return this.#fetches(async () => {
      const over = new AbortController();
      const timed = AbortSignal.any([signal, over.signal, AbortSignal.timeout(fetchSeconds * 1000)]);
      const [archive, file] = [new LayerArchive(limits), path.join(folder, `${name}.layer`)];
      try {
        const command = await this.#start(pod, words, timed);
        command.output.on('error', (error) => archive.destroy(error)).pipe(archive);
        const [layer] = await Promise.all([writeLayer(archive, `${file}.new`, timed), command.ended]);
        await rename(`${file}.new`, file);
        await writeFileDurably(noteIn(folder, name), JSON.stringify({ ...layer, file }));
        return archive.bytes;
      } finally {
        // This ends the command in the pod after its archive was refused.
        over.abort();
        await rm(`${file}.new`, { force: true });
      }
    });
  }

  /** Runs a command in a pod of a build and waits for its end. @throws {PodCommandError} */
  async #do(pod: string, words: string[], seconds: number, signal: AbortSignal): Promise<void> {
    const timed = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]);
    const command = await this.#start(pod, isolated(words), timed);
    command.output.resume();
    await command.ended;
  }

  #start(name: string, words: string[], signal: AbortSignal): Promise<PodCommand> {
    const { config, options } = this.#host;
    const pod = { namespace: options.namespace, name, container: sandboxContainer };
    return startPodCommand(config, pod, words, signal);
  }

  #requirePod(sandboxId: SandboxId): V1Pod {
    const pod = this.#host.findPod(sandboxId);
    if (!pod) throw new DriverError('sandbox_absent', 'The sandbox is not on this host');
    return pod;
  }

  #buildFolder(buildId: string): string {
    if (!/^[a-z]+-[A-Za-z0-9]+$/.test(buildId)) throw new Error(`${buildId} names no build`);
    return path.join(this.#host.folder, buildId);
  }
}

/** Whether a pod works for the build of an image. */
export const isOfBuild = (pod: V1Pod) => pod.metadata?.labels?.[labels.build] !== undefined;

/** Runs a command without the variables of the image, because Node and the dynamic loader read some of them. */
const isolated = (words: string[]) => [env, '-i', ...words];

const noteIn = (folder: string, name: 'changes' | 'image') => path.join(folder, `${name}.json`);
const never = new AbortController().signal;

/** The layer that an earlier attempt has stored. Null: no layer is stored. */
async function readLayer(folder: string, name: 'changes' | 'image'): Promise<PackedLayer | null> {
  const made = readDocumentOrSetAside(noteIn(folder, name), layerSchema);
  if (!made) return null;
  return stat(made.file).then(
    () => made,
    () => null,
  );
}

const digestIn = (reference: string) => /@(sha256:[0-9a-f]{64})$/.exec(reference)?.[1] ?? null;

/** The image of a pod with the digest that its node has pulled, because a tag may point to another image by now. */
function imageThatRuns(pod: V1Pod): string {
  const named = pod.spec!.containers.find(({ name }) => name === sandboxContainer)!.image!;
  const status = pod.status?.containerStatuses?.find(({ name }) => name === sandboxContainer);
  const digest = digestIn(status?.imageID ?? '');
  if (digestIn(named) || !digest) return named;
  return `${named.replace(/:[^:/]*$/, '')}@${digest}`;
}

const packedNothing = (why: string) =>
  new DriverError('snapshot_failed', "The sandbox's disk could not be copied", {
    cause: new Error(why),
    retryable: true,
  });

function toBuildFailure(error: unknown, signal: AbortSignal): unknown {
  signal.throwIfAborted();
  if (error instanceof ArchiveRefusedError) return unpackable(error.message, error);
  if (error instanceof PodCommandError && error.exitCode === refusedExitCode) {
    return unpackable(error.output.replace(/[^\x20-\x7e]/g, '').slice(0, 400), error);
  }
  if (isOutOfSpace(error)) {
    return new DriverError('host_disk_full', "The host's disk is full", { cause: error, retryable: true });
  }
  if (error instanceof DriverError) return error.code === 'start_failed' ? packedNothing(error.message) : error;
  return new DriverError('snapshot_failed', "The sandbox's disk could not be copied", {
    cause: error,
    retryable: true,
  });
}

const unpackable = (what: string, cause: unknown) =>
  new DriverError('changes_not_packable', `The sandbox has what no image can hold: ${what}`, { cause });
