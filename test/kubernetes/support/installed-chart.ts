import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { AppsV1Api, type V1Pod } from '@kubernetes/client-node';
import { AgentClient } from '../../../ops/development/client/agent-client.ts';
import { PlatformClient, type SandboxView } from '../../../ops/development/client/platform-client.ts';
import { kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { writeSourceTree } from '../../support/source-tree.ts';
import { TestCa } from '../../support/test-ca.ts';
import { until } from '../../support/until.ts';
import { pushAgentImage } from './driver-host.ts';
import { ExternalServices } from './external-services.ts';
import type { KubernetesCluster } from './kubernetes-cluster.ts';
import { pushAsVersion, pushPlatformImage } from './platform-image.ts';
import { makeVolumes, pushBusybox } from './pods.ts';

const run = promisify(execFile);
const repository = path.resolve(import.meta.dirname, '../../..');
const chartFolder = 'ops/helm/sandbox-platform';
const baseDomain = 'sandbox.test';
/** The storage class of the sandboxes' disks. The test makes its volumes. */
const storageClass = 'disks-of-the-test';
const sandboxNamespace = 'sandboxes';
export const release = 'platform';
const followedLines = 200;

/** The chart, installed with Helm in its own namespace, with Postgres and Temporal outside of the cluster. */
export class InstalledChart {
  readonly cluster: KubernetesCluster;
  readonly services: ExternalServices;
  readonly namespace = `platform-${randomBytes(4).toString('hex')}`;
  readonly #values: Record<string, unknown>;
  readonly #followed: { lines: string[]; kubectl: ChildProcess }[] = [];

  private constructor(cluster: KubernetesCluster, services: ExternalServices, images: { base: string; agent: string }) {
    this.cluster = cluster;
    this.services = services;
    // The test's node may have only two processors.
    const resources = { requests: { cpu: '50m', memory: '64Mi' } };
    this.#values = {
      image: { repository: `${cluster.registry}/sandbox-platform` },
      url: `http://${release}-api.${this.namespace}`,
      baseDomain,
      secret: 'platform',
      migrations: { ownerSecret: 'platform-owner', resources },
      temporal: { address: services.temporal, namespace: services.namespace },
      api: { resources },
      worker: { resources },
      gateway: { tlsSecret: 'gateway-tls', service: { type: 'ClusterIP' }, resources },
      sandboxes: {
        enabled: true,
        hostId: 'cluster-of-the-test',
        namespace: sandboxNamespace,
        agentImage: images.agent,
        storageClass,
        podNetwork: cluster.place.network.pods,
        // The cluster does not enforce network policies.
        isolation: 'unchecked',
        // The cluster has no volumes for the disks of warm pods.
        warmPods: { size: 0 },
        resources,
        guardResources: resources,
      },
      settings: {
        PLATFORM_BASE_IMAGE: images.base,
        PLATFORM_IMAGES_AHEAD: 'none',
        PLATFORM_RATE_LIMIT_PER_KEY: 0,
      },
    };
  }

  /** Makes the objects that `docs/kubernetes.md` requires before the installation. */
  static async prepare(cluster: KubernetesCluster): Promise<InstalledChart> {
    const services = await ExternalServices.open(cluster.place.network.machine);
    const images = { base: await pushBusybox(cluster), agent: await pushAgentImage(cluster.registry) };
    const installed = new InstalledChart(cluster, services, images);
    await installed.#makeSecrets();
    return installed;
  }

  /** Pushes the platform's image. @param commit the commit of the code; null for the code of this folder */
  async pushImage(tag: string, commit: string | null): Promise<void> {
    const { registry, place } = this.cluster;
    await pushPlatformImage({ registry, folder: place.folder, tag, commit });
  }

  /** Pushes the image of a tag again, with another tag and version number. */
  async pushAsVersion(of: string, tag: string, version: string): Promise<void> {
    const { registry, place } = this.cluster;
    await pushAsVersion({ registry, folder: place.folder, of, tag, version });
  }

  /** Writes the chart of a commit. @returns its folder */
  async readChart(commit: string): Promise<string> {
    const tree = path.join(this.cluster.place.folder, 'chart-source');
    await writeSourceTree(tree, commit);
    return path.join(tree, chartFolder);
  }

  /**
   * Runs `helm upgrade --install`.
   * @param values replace top-level values of the installation
   * @param chart the folder of the chart, which may be older than the values
   */
  async helm(tag: string, values: object = {}, chart = path.join(repository, chartFolder)): Promise<void> {
    const all: Record<string, unknown> = knownValues(chart, { ...this.#values, ...values });
    all.image = { ...(all.image as object), tag };
    const file = path.join(this.cluster.place.folder, 'values.json');
    fs.writeFileSync(file, JSON.stringify(all), { mode: 0o600 });
    const words = ['upgrade', '--install', release, chart, '--values', file, '--wait', '--timeout', '6m'];
    try {
      await this.#helm(words);
    } catch (cause) {
      throw new Error(`${(cause as { stderr?: string }).stderr}\n${await this.troubles()}`, { cause });
    }
  }

  async uninstall(): Promise<void> {
    await this.#helm(['uninstall', release, '--wait']);
  }

  /** Runs kubectl in the namespace of the installation. @returns its standard output */
  async kubectl(...words: string[]): Promise<string> {
    const { kubectl } = kubernetesPrograms();
    const common = ['--kubeconfig', this.cluster.kubeConfigFile, '--namespace', this.namespace];
    return (await run(kubectl, [...common, ...words], { maxBuffer: 64 * 2 ** 20 })).stdout;
  }

  /** The pods of a part that are not being deleted. */
  async listPods(part: string): Promise<V1Pod[]> {
    const labelSelector = `app.kubernetes.io/component=${part}`;
    const { items } = await this.cluster.core.listNamespacedPod({ namespace: this.namespace, labelSelector });
    return items.filter(({ metadata }) => !metadata!.deletionTimestamp);
  }

  /** The number of ready replicas of each Deployment, by its name. */
  async readyReplicas(): Promise<Record<string, number>> {
    const apps = this.cluster.config.makeApiClient(AppsV1Api);
    const { items } = await apps.listNamespacedDeployment({ namespace: this.namespace });
    return Object.fromEntries(items.map(({ metadata, status }) => [metadata!.name!, status!.readyReplicas ?? 0]));
  }

  /** The address of a Service in the cluster. This machine can connect to it. */
  async readAddress(part: string): Promise<string> {
    const name = `${release}-${part}`;
    return (await this.cluster.core.readNamespacedService({ namespace: this.namespace, name })).spec!.clusterIP!;
  }

  /** Makes an API key as the operator does. */
  async makeApiKey(): Promise<string> {
    const admin = ['exec', `deployment/${release}-api`, '--', 'node', 'ops/operator/admin.ts'];
    return JSON.parse(await this.kubectl(...admin, 'create-api-key')).apiKey;
  }

  /** A client that connects to the Service of the API. */
  async client(apiKey: string): Promise<PlatformClient> {
    return new PlatformClient(`http://${await this.readAddress('api')}`, apiKey);
  }

  /** An agent client that connects to the Service of the gateway. */
  async agent(sandbox: SandboxView): Promise<AgentClient> {
    return new AgentClient(
      sandbox.sandbox_domain,
      sandbox.envd_access_token,
      'http',
      await this.readAddress('gateway'),
    );
  }

  /** Makes volumes for the disks of this number of sandboxes. */
  async makeDisks(count: number): Promise<void> {
    await makeVolumes(this.cluster, storageClass, count, '1Ti');
  }

  /** The names of the pods and disks in the namespace of the sandboxes. */
  async sandboxObjects(): Promise<{ pods: string[]; disks: string[] }> {
    const of = { namespace: sandboxNamespace };
    const { core } = this.cluster;
    const [pods, disks] = [await core.listNamespacedPod(of), await core.listNamespacedPersistentVolumeClaim(of)];
    const names = (items: { metadata?: { name?: string } }[]) => items.map(({ metadata }) => metadata!.name!).sort();
    return { pods: names(pods.items), disks: names(disks.items) };
  }

  /** Keeps the last log lines of the current pods of a part for `troubles`, even after the pods are gone. */
  async follow(part: string): Promise<void> {
    for (const { metadata } of await this.listPods(part)) {
      const place = ['--kubeconfig', this.cluster.kubeConfigFile, '--namespace', this.namespace];
      const words = [...place, 'logs', metadata!.name!, '--follow', '--all-containers', '--prefix'];
      const kubectl = spawn(kubernetesPrograms().kubectl, words, { stdio: ['ignore', 'pipe', 'ignore'] });
      const lines: string[] = [];
      createInterface(kubectl.stdout!).on('line', (line) => {
        lines.push(line);
        if (lines.length > followedLines) lines.shift();
      });
      this.#followed.push({ lines, kubectl });
    }
  }

  /** The pods, warnings and logs, for an error message. */
  async troubles(): Promise<string> {
    const pods = await this.kubectl('get', 'pods', '--all-namespaces', '--output=wide');
    const events = await this.kubectl('get', 'events', '--all-namespaces', '--field-selector=type=Warning');
    const logs = this.#followed.map(({ lines }) => lines.join('\n'));
    for (const { metadata } of (await this.cluster.core.listNamespacedPod({ namespace: this.namespace })).items) {
      const name = metadata!.name!;
      const words = ['logs', name, '--all-containers', '--prefix', '--tail=40'];
      logs.push(await this.kubectl(...words).catch((error) => `${name}: ${error.stderr}`));
    }
    return [pods, events.slice(-8000), ...logs].join('\n').slice(0, 60_000);
  }

  /** Removes the database, after the processes that use it. The cluster stays. */
  async close(): Promise<void> {
    for (const { kubectl } of this.#followed) kubectl.kill();
    // The pods must not keep connections to the database.
    for (const part of ['api', 'gateway', 'worker', 'sandboxes']) {
      await this.kubectl('delete', 'deployment', `${release}-${part}`, '--ignore-not-found', '--wait=false');
    }
    await this.services.close();
  }

  async #helm(words: string[]): Promise<void> {
    const place = ['--kubeconfig', this.cluster.kubeConfigFile, '--namespace', this.namespace];
    const home = path.join(this.cluster.place.folder, 'helm');
    const env = { ...process.env, HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home, HELM_DATA_HOME: home };
    await run(kubernetesPrograms().helm, [...words, ...place], { env });
  }

  async #makeSecrets(): Promise<void> {
    const { core } = this.cluster;
    const { namespace } = this;
    await core.createNamespace({ body: { metadata: { name: namespace } } });
    const secret = (name: string, stringData: Record<string, string>, type = 'Opaque') =>
      core.createNamespacedSecret({ namespace, body: { metadata: { name }, type, stringData } });
    const ca = await TestCa.create();
    const { certificate, key } = await ca.issue({
      name: 'gateway',
      answersFor: [{ type: 'dns', value: `*.${baseDomain}` }],
    });
    await secret('platform', {
      PLATFORM_SECRET_KEY: randomBytes(32).toString('base64'),
      DATABASE_URL: this.services.urls.runtime,
    });
    await secret('platform-owner', { DATABASE_OWNER_URL: this.services.urls.owner });
    await secret('gateway-tls', { 'tls.crt': certificate, 'tls.key': key }, 'kubernetes.io/tls');
    // The API server refuses pods until the namespace has its service account.
    await until(async () => {
      const { items } = await core.listNamespacedServiceAccount({ namespace });
      return items.length > 0;
    });
  }
}

/** The values without those of sandboxes that the chart does not have: an older chart refuses them. */
function knownValues(chart: string, values: Record<string, unknown>): Record<string, unknown> {
  const schema = JSON.parse(fs.readFileSync(path.join(chart, 'values.schema.json'), 'utf8'));
  const known = Object.keys(schema.properties.sandboxes.properties);
  const sandboxes = Object.entries(values.sandboxes as object).filter(([name]) => known.includes(name));
  return { ...values, sandboxes: Object.fromEntries(sandboxes) };
}
