import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { V1Pod } from '@kubernetes/client-node';
import { writeS3fsImage } from '../../../runtime/kubernetes/mounts/s3fs-image.ts';
import { findLibraries } from '../../../runtime/sandbox-agent/runtime-folder.ts';
import { cacheDir } from '../../runtime/local-host.ts';
import { computeDigest, pushImage } from '../../support/pushed-image.ts';
import { createLayer, type TarEntry, tar } from '../../support/tar-layer.ts';
import { until } from '../../support/until.ts';
import type { KubernetesCluster } from './kubernetes-cluster.ts';
import { applyFromChart, pushPlatformImage, readProcesses } from './node-helper.ts';

const repository = path.resolve(import.meta.dirname, '../../..');
const folder = 'runtime/kubernetes/mounts/helper';

/** The mount helper on a cluster, installed with the chart's manifests. */
export class InstalledMountHelper {
  readonly #cluster: KubernetesCluster;

  private constructor(cluster: KubernetesCluster) {
    this.#cluster = cluster;
  }

  /** @param sandboxNamespace the existing namespace of the sandboxes that the helper serves */
  static async install(cluster: KubernetesCluster, sandboxNamespace: string): Promise<InstalledMountHelper> {
    const scripts = [`${folder}/join-pod.pl`, 'runtime/mounts/kernel.pl', 'runtime/mounts/mount-point.pl'];
    const more = [
      ...(await perl()),
      ...scripts.map((file) => ({ name: `app/${file}`, content: fs.readFileSync(path.join(repository, file)) })),
    ];
    await pushPlatformImage(cluster.registry, 'mount-helper', `${folder}/main.ts`, more);
    await applyFromChart(cluster, 'mount-helper', { mountHelper: { enabled: true, sandboxNamespace } });
    const helper = new InstalledMountHelper(cluster);
    await until(async () => (await helper.pod()) !== null, 90_000);
    return helper;
  }

  /** The helper's pod on the only node. Null: its container does not run yet. */
  async pod(): Promise<V1Pod | null> {
    const labelSelector = 'app.kubernetes.io/component=mount-helper';
    const { items } = await this.#cluster.core.listNamespacedPod({ namespace: 'default', labelSelector });
    return items.find(({ status }) => status?.containerStatuses?.[0]?.state?.running) ?? null;
  }

  /** Kills the helper with SIGKILL, and waits until the kubelet has restarted it. */
  async kill(): Promise<void> {
    const pod = (await this.pod())!;
    const id = pod.status!.containerStatuses![0]!.containerID!.split('://')[1]!;
    for (const pid of readProcesses(this.#cluster, pod, id)) process.kill(pid, 'SIGKILL');
    await until(async () => {
      const now = (await this.pod())?.status?.containerStatuses?.[0]?.containerID;
      return now !== undefined && !now.endsWith(id);
    }, 90_000);
  }
}

/** Pushes the image of mount pods to the registry. @returns its reference */
export async function pushS3fsImage(registry: string): Promise<string> {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 's3fs-root-'));
  try {
    await writeS3fsImage(cacheDir(), root);
    const entries = entriesIn(root, '');
    const { digest } = await pushImage(`http://${registry}`, 'platform-s3fs', {
      layers: [createLayer(entries)],
      config: { config: {}, rootfs: { type: 'layers', diff_ids: [computeDigest(tar(entries))] } },
    });
    return `${registry}/platform-s3fs@${digest}`;
  } finally {
    fs.rmSync(root, { recursive: true });
  }
}

/** The files of this machine's Perl, with the modules of Debian's package `perl-base`. */
async function perl(): Promise<TarEntry[]> {
  const modules = fs.globSync('/usr/lib/*/perl-base')[0]!;
  const libraries = await findLibraries(['/usr/bin/perl']);
  const files = ['/usr/bin/perl', ...libraries].map((file) => ({
    name: file.slice(1),
    content: fs.readFileSync(file),
    mode: 0o755,
  }));
  return [...files, ...entriesIn(modules, modules.slice(1))];
}

function entriesIn(root: string, name: string): TarEntry[] {
  return fs.readdirSync(root, { recursive: true, withFileTypes: true }).flatMap((entry): TarEntry[] => {
    const file = path.join(entry.parentPath, entry.name);
    const at = path.join(name, path.relative(root, file));
    if (entry.isDirectory()) return [{ name: at, type: '5' }];
    return entry.isFile() ? [{ name: at, content: fs.readFileSync(file), mode: fs.statSync(file).mode & 0o777 }] : [];
  });
}
