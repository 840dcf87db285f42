import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { V1Pod } from '@kubernetes/client-node';
import { build } from 'esbuild';
import { kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { ensureAgentImageFolder } from '../../../runtime/kubernetes/agent-image.ts';
import { annotations } from '../../../runtime/kubernetes/names.ts';
import { cacheDir } from '../../runtime/local-host.ts';
import { computeDigest, pushImage } from '../../support/pushed-image.ts';
import { createLayer, type TarEntry, tar } from '../../support/tar-layer.ts';
import { until } from '../../support/until.ts';
import type { KubernetesCluster } from './kubernetes-cluster.ts';

const run = promisify(execFile);
const repository = path.resolve(import.meta.dirname, '../../..');
const script = 'runtime/kubernetes/node-helper/main.ts';
const startAgainTimeoutMs = 60_000;

/** The node helper on a cluster, installed with the chart's manifests. */
export class InstalledNodeHelper {
  readonly #cluster: KubernetesCluster;
  readonly #manifests: string;

  private constructor(cluster: KubernetesCluster, manifests: string) {
    this.#cluster = cluster;
    this.#manifests = manifests;
  }

  /** @param sandboxNamespace the existing namespace of the sandboxes that the helper serves */
  static async install(cluster: KubernetesCluster, sandboxNamespace: string): Promise<InstalledNodeHelper> {
    await pushPlatformImage(cluster.registry, 'node-helper', script);
    const manifests = await applyFromChart(cluster, 'node-helper', { nodeHelper: { enabled: true, sandboxNamespace } });
    const helper = new InstalledNodeHelper(cluster, manifests);
    await until(async () => (await helper.pod()) !== null, 90_000);
    return helper;
  }

  /** The helper's pod on a node. Null: its container does not run yet. */
  async pod(nodeName = 'node-1'): Promise<V1Pod | null> {
    const labelSelector = 'app.kubernetes.io/component=node-helper';
    const { items } = await this.#cluster.core.listNamespacedPod({ namespace: 'default', labelSelector });
    const there = items.filter(({ spec }) => spec?.nodeName === nodeName);
    return there.find(({ status }) => status?.containerStatuses?.[0]?.state?.running) ?? null;
  }

  /** Sends a signal to the helper's processes on a node. @returns the container's id */
  async signal(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL', nodeName = 'node-1'): Promise<string> {
    const pod = (await this.pod(nodeName))!;
    const id = pod.status!.containerStatuses![0]!.containerID!.split('://')[1]!;
    for (const pid of readProcesses(this.#cluster, pod, id)) process.kill(pid, signal);
    return id;
  }

  /** Kills the helper with SIGKILL, and waits until the kubelet has restarted it. */
  async kill(): Promise<void> {
    await this.startedAfter(await this.signal('SIGKILL'));
  }

  /** Waits until the kubelet has started a new container. @param id the container that was killed */
  async startedAfter(id: string): Promise<void> {
    await until(async () => {
      const now = (await this.pod())?.status?.containerStatuses?.[0]?.containerID;
      return now !== undefined && !now.endsWith(id);
    }, startAgainTimeoutMs);
  }

  /** Waits until the helper has seen a running sandbox, so that a pause keeps its memory. */
  async whenSeen(of: { name: string; namespace: string }): Promise<void> {
    await until(async () => {
      const { metadata } = await this.#cluster.core.readNamespacedPod(of);
      return metadata?.annotations?.[annotations.frozenNow] === 'false';
    }, 60_000);
  }

  /** Removes the helper from the cluster and waits until its pod is gone. Frozen sandboxes stay frozen. */
  async remove(): Promise<void> {
    const of = ['--kubeconfig', this.#cluster.kubeConfigFile, '--filename', this.#manifests];
    await run(kubernetesPrograms().kubectl, ['delete', '--cascade=foreground', '--timeout=90s', ...of]);
  }
}

/** The process numbers of a pod's container on this machine. */
export function readProcesses(cluster: KubernetesCluster, pod: V1Pod, containerId: string): number[] {
  const procs = path.join(findFreezer(cluster, pod), containerId, 'cgroup.procs');
  return fs.readFileSync(procs, 'utf8').split('\n').filter(Boolean).map(Number);
}

/** The freezer state of each container of a pod, by the container's id. */
export function freezerStates(cluster: KubernetesCluster, pod: V1Pod): Record<string, string> {
  const folder = findFreezer(cluster, pod);
  const containers = fs.readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const readState = (name: string) => fs.readFileSync(path.join(folder, name, 'freezer.state'), 'utf8').trim();
  return Object.fromEntries(containers.map(({ name }) => [name, readState(name)]));
}

function findFreezer(cluster: KubernetesCluster, pod: V1Pod): string {
  const { metadata } = pod;
  const pods = path.join(cluster.findNode(pod).place.groups.folder('freezer'), 'kubepods');
  const folders = ['', 'burstable', 'besteffort'].map((kind) => path.join(pods, kind, `pod${metadata!.uid}`));
  const found = folders.find((folder) => fs.existsSync(folder));
  if (!found) throw new Error(`${metadata!.name} has no control group`);
  return found;
}

/**
 * Applies one template of the chart. Its pods use the image that was pushed under the name of the template.
 * @returns the file with the applied manifests
 */
export async function applyFromChart(cluster: KubernetesCluster, template: string, more: object): Promise<string> {
  const chart = path.join(repository, 'ops/helm/sandbox-platform');
  const values = {
    image: { repository: `${cluster.registry}/${template}`, tag: 'latest' },
    url: 'https://api.example.com',
    baseDomain: 'sandbox.example.com',
    secret: 'platform',
    gateway: { tlsSecret: 'gateway-tls' },
    temporal: { address: 'temporal.example.com:7233' },
    ...more,
  };
  const file = path.join(cluster.place.folder, `${template}.json`);
  fs.writeFileSync(file, JSON.stringify(values));
  const of = ['--namespace', 'default', '--values', file, '--show-only', `templates/${template}.yaml`];
  const { stdout } = await run(kubernetesPrograms().helm, ['template', 'platform', chart, ...of]);
  const manifests = path.join(cluster.place.folder, `${template}.yaml`);
  fs.writeFileSync(manifests, stdout);
  const apply = ['--kubeconfig', cluster.kubeConfigFile, 'apply', '--server-side'];
  await run(kubernetesPrograms().kubectl, [...apply, '--filename', manifests]);
  return manifests;
}

/**
 * Pushes an image that starts a script like the platform's image. It has Node, the script's bundle, and further files.
 */
export async function pushPlatformImage(
  registry: string,
  name: string,
  script: string,
  more: readonly TarEntry[] = [],
): Promise<void> {
  const bundle = await build({
    entryPoints: [path.join(repository, script)],
    bundle: true,
    platform: 'node',
    format: 'esm',
    write: false,
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
  });
  const folder = await ensureAgentImageFolder(cacheDir(), path.join(repository, 'agent/dist'));
  const files = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  const entries = [
    ...files.map((file) => ({
      name: path.join('.platform', path.relative(folder, file)),
      content: fs.readFileSync(file),
      mode: fs.statSync(file).mode & 0o777,
    })),
    { name: `app/${script}`, content: Buffer.from(bundle.outputFiles[0]!.contents), mode: 0o644 },
    { name: 'app/package.json', content: Buffer.from('{"type":"module"}'), mode: 0o644 },
    ...more,
  ];
  await pushImage(`http://${registry}`, name, {
    layers: [createLayer(entries)],
    config: {
      config: { WorkingDir: '/app', Entrypoint: ['/.platform/bin/node', '--disable-warning=ExperimentalWarning'] },
      rootfs: { type: 'layers', diff_ids: [computeDigest(tar(entries))] },
    },
  });
}
