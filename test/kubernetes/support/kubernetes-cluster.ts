import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import { CoreV1Api, type KubeConfig, type V1Pod } from '@kubernetes/client-node';
import { kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { computeDigest, pushImage } from '../../support/pushed-image.ts';
import { createLayer, tar } from '../../support/tar-layer.ts';
import type { Subject } from '../../support/test-ca.ts';
import { ClusterKeys } from './cluster-keys.ts';
import { ClusterNode, flags, type NodeProgram } from './cluster-node.ts';
import { ClusterPlace } from './cluster-place.ts';
import { auditPolicy } from './node-configuration.ts';
import { joinNodes } from './node-link.ts';
import { PodNode } from './pod-node.ts';
import { makeCiliumKinds } from './policy-enforcer.ts';

const firstNode = 'node-1';
const apiPort = 6443;
const registryPort = 5000;
const etcd = 'http://127.0.0.1:2379';

export interface ClusterOptions {
  /**
   * `node`: one node that runs pods, with containerd, kube-proxy and a registry. `api-only`: only the API server and
   * etcd, for tests that need objects but no containers. It has no scheduler and no garbage collector.
   */
  kind?: 'node' | 'api-only';
  /** Whether Cilium enforces NetworkPolicies. Its start takes about 20 s. Default: false. */
  enforcesPolicies?: boolean;
  /** A user whose requests to the API server are recorded, for `recordedRequests`. */
  recordedUser?: string;
  /** The time without a sign of life after which the cluster counts a node as lost. Undefined: the default, 50 s. */
  nodeSilenceSeconds?: number;
}

/** A request in the audit log of the API server. */
export interface RecordedRequest {
  /** `get`, `list`, `watch`, `patch`, … */
  verb: string;
  /** For example `/api/v1/pods?watch=true`. */
  uri: string;
  status: number;
}

/**
 * A Kubernetes cluster on this machine, in its own Linux namespaces. The machine connects to the API server, the
 * registry and the pods over one link, and the cluster uses no port of the machine. It ends with the process that
 * started it.
 */
export class KubernetesCluster {
  readonly place: ClusterPlace;
  readonly node: ClusterNode;
  /** `https://<address>:<port>`. */
  readonly server: string;
  /** Host and port of the registry, for images of pods and for pushes. It has no TLS. */
  readonly registry: string;
  readonly #keys: ClusterKeys;
  readonly #admin: KubeConfig;
  readonly #options: ClusterOptions;
  /** The nodes. The control plane runs on the first one. */
  readonly #nodes: PodNode[] = [];
  #pauseImage = '';

  private constructor(
    options: ClusterOptions,
    { place, node, keys, admin }: { place: ClusterPlace; node: ClusterNode; keys: ClusterKeys; admin: KubeConfig },
  ) {
    this.#options = options;
    this.place = place;
    this.node = node;
    this.server = serverUrl(place);
    this.registry = `${place.network.node}:${registryPort}`;
    this.#keys = keys;
    this.#admin = admin;
  }

  static async start(options: ClusterOptions = {}): Promise<KubernetesCluster> {
    const place = await ClusterPlace.take();
    let node: ClusterNode | undefined;
    try {
      node = await ClusterNode.start(place);
      const keys = await ClusterKeys.create(serverUrl(place));
      fs.mkdirSync(place.file('pki'));
      const administrator = { name: 'admin', group: 'system:masters' };
      await keys.userFile(place, 'admin', administrator);
      const admin = await keys.createConfig(administrator);
      const cluster = new KubernetesCluster(options, { place, node, keys, admin });
      await cluster.#startApi(options.recordedUser);
      if (options.kind !== 'api-only') await cluster.#startFirstNode();
      return cluster;
    } catch (error) {
      await node?.stop();
      await place.release();
      throw error;
    }
  }

  /** The configuration of an administrator. */
  get config(): KubeConfig {
    return this.#admin;
  }

  get core(): CoreV1Api {
    return this.#admin.makeApiClient(CoreV1Api);
  }

  /** The kubeconfig of an administrator, for kubectl and Helm. */
  get kubeConfigFile(): string {
    return this.place.file('admin.kubeconfig');
  }

  /** A configuration for a user, who has only the roles that are bound to the user or to the group. */
  createConfig(subject: Subject): Promise<KubeConfig> {
    return this.#keys.createConfig(subject);
  }

  /**
   * Adds a node in its own Linux namespaces, with a link to each existing node.
   * @param options.reservedMemory the part of the machine's memory that pods of the node cannot request, such as `2Gi`
   */
  async addNode(options: { reservedMemory?: string } = {}): Promise<PodNode> {
    const place = await ClusterPlace.take();
    let node: ClusterNode | undefined;
    try {
      node = await ClusterNode.start(place);
      const added = new PodNode(node, { ...this.#nodeOptions(`node-${this.#nodes.length + 1}`, place), ...options });
      for (const other of this.#nodes) await joinNodes(other, added);
      await added.start();
      this.#nodes.push(added);
      return added;
    } catch (error) {
      await node?.stop();
      await place.release();
      throw error;
    }
  }

  /** Starts a node again after `powerOff`. */
  async powerOn(added: PodNode): Promise<void> {
    const others = this.#nodes.filter((each) => each !== added);
    await added.powerOn(async (node) => {
      for (const other of others) await joinNodes(other, { node, place: added.place });
    });
  }

  /** The node of a pod. */
  findNode({ metadata, spec }: V1Pod): PodNode {
    const found = this.#nodes.find(({ name }) => name === spec?.nodeName);
    if (!found) throw new Error(`${metadata?.name} is on no node`);
    return found;
  }

  /**
   * Pushes an image to the registry.
   * @param files the files of the image by their path; folders are made automatically
   * @returns the reference of the image, with its digest
   */
  async push(
    name: string,
    files: Record<string, { content: Buffer; mode: number } | { link: string }>,
    config: { Entrypoint?: string[]; Cmd?: string[]; Env?: string[] } = {},
  ): Promise<string> {
    const entries = Object.entries(files).map(([file, entry]) =>
      'link' in entry ? { name: file, type: '2', link: entry.link } : { name: file, ...entry },
    );
    const { digest } = await pushImage(`http://${this.registry}`, name, {
      layers: [createLayer(entries)],
      config: { config, rootfs: { type: 'layers', diff_ids: [computeDigest(tar(entries))] } },
    });
    return `${this.registry}/${name}@${digest}`;
  }

  /** The requests of the recorded user until now. A watch is recorded when it starts. */
  recordedRequests(): RecordedRequest[] {
    const lines = fs.readFileSync(this.place.file('audit.log'), 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => {
      const { verb, requestURI, responseStatus } = JSON.parse(line);
      return { verb, uri: requestURI, status: responseStatus?.code ?? 0 };
    });
  }

  /** Removes the cluster and everything in it. */
  async stop(): Promise<void> {
    for (const { node, place } of this.#nodes.slice(1).reverse()) {
      place.groups.thaw();
      await node.stop();
      await place.release();
    }
    this.place.groups.thaw();
    await this.node.stop();
    await this.place.release();
  }

  /** Starts etcd and the API server. */
  async #startApi(recordedUser?: string): Promise<void> {
    const { place } = this;
    const { network } = place;
    const etcdArgs = {
      name: firstNode,
      // The data of a test does not have to survive a crash of the machine.
      'unsafe-no-fsync': 'true',
      'log-level': 'warn',
      'data-dir': place.file('etcd'),
      'listen-client-urls': etcd,
      'advertise-client-urls': etcd,
      'listen-peer-urls': 'http://127.0.0.1:2380',
      'initial-advertise-peer-urls': 'http://127.0.0.1:2380',
      'initial-cluster': `${firstNode}=http://127.0.0.1:2380`,
    };
    this.node.start('etcd', kubernetesPrograms().etcd, flags(etcdArgs));

    const names = ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'];
    const addresses = ['127.0.0.1', network.firstService, network.node];
    const serving = await this.#keys.keyPair(place, 'apiserver', {
      name: 'kube-apiserver',
      answersFor: [
        ...names.map((value) => ({ type: 'dns' as const, value })),
        ...addresses.map((value) => ({ type: 'ip' as const, value })),
      ],
    });
    const apiServer = { name: 'kube-apiserver', group: 'system:masters' };
    const toKubelet = await this.#keys.keyPair(place, 'apiserver-kubelet', apiServer);
    const accounts = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    });
    const ca = this.#keys.caFile(place);
    place.write('pki/ca.key', this.#keys.ca.pair.key);
    const api = this.node.start(
      'kube-apiserver',
      kubernetesPrograms().apiServer,
      flags({
        'bind-address': '0.0.0.0',
        'secure-port': `${apiPort}`,
        'advertise-address': network.node,
        'etcd-servers': etcd,
        'authorization-mode': 'Node,RBAC',
        'allow-privileged': 'true',
        'enable-admission-plugins': 'NodeRestriction',
        'client-ca-file': ca,
        'service-cluster-ip-range': network.services,
        'tls-cert-file': serving.certificate,
        'tls-private-key-file': serving.key,
        'kubelet-client-certificate': toKubelet.certificate,
        'kubelet-client-key': toKubelet.key,
        'kubelet-certificate-authority': ca,
        'kubelet-preferred-address-types': 'InternalIP',
        'service-account-issuer': 'https://kubernetes.default.svc',
        'service-account-key-file': this.place.write('pki/accounts.pub', accounts.publicKey),
        'service-account-signing-key-file': this.place.write('pki/accounts.key', accounts.privateKey),
        profiling: 'false',
        ...(recordedUser !== undefined && {
          'audit-policy-file': this.place.write('audit.json', JSON.stringify(auditPolicy(recordedUser))),
          'audit-log-path': this.place.file('audit.log'),
        }),
      }),
    );
    await api.whenReady(() => this.#apiAnswers());
  }

  /** Starts a program again after its end, and waits until it answers. */
  async startAgain(name: 'containerd' | 'kube-apiserver' | 'registry'): Promise<void> {
    if (name === 'containerd') return this.#nodes[0]!.startContainerdAgain();
    const answers = {
      'kube-apiserver': () => this.#apiAnswers(),
      registry: () => this.#registryAnswers(),
    }[name];
    await this.node.startAgain(name).whenReady(answers);
  }

  /** Starts the kubelet of the first node after its end, and waits until it answers. */
  startKubelet(): Promise<void> {
    return this.#nodes[0]!.startKubelet();
  }

  async #apiAnswers(): Promise<boolean> {
    await this.core.readNamespace({ name: 'default' });
    return true;
  }

  async #registryAnswers(): Promise<boolean> {
    return (await fetch(`http://${this.registry}/v2/`)).ok;
  }

  /** Starts the registry, the controllers and the programs of the first node. */
  async #startFirstNode(): Promise<void> {
    const registry = this.#startRegistry();
    await registry.whenReady(() => this.#registryAnswers());
    const catatonit = fs.readFileSync('/usr/bin/catatonit');
    this.#pauseImage = await this.push(
      'pause',
      { pause: { content: catatonit, mode: 0o755 } },
      // With -P it waits for a signal and reaps ended processes.
      { Entrypoint: ['/pause', '-P'] },
    );
    await this.#startController();
    if (this.#options.enforcesPolicies) await makeCiliumKinds(this.kubeConfigFile);
    const first = new PodNode(this.node, this.#nodeOptions(firstNode, this.place));
    this.#nodes.push(first);
    await first.start();
    await this.#whenAccountsAreMade();
  }

  #nodeOptions(name: string, place: ClusterPlace) {
    const { registry } = this;
    const { enforcesPolicies = false } = this.#options;
    const users = { keys: this.#keys, admin: this.#admin, adminFile: this.kubeConfigFile };
    return { name, place, ...users, registry, pauseImage: this.#pauseImage, enforcesPolicies };
  }

  #startRegistry(): NodeProgram {
    const config = {
      version: '0.1',
      log: { level: 'warn', accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: this.place.file('registry') } },
      http: { addr: this.registry },
    };
    // The registry reads YAML, and JSON is valid YAML.
    const file = this.place.write('registry.json', JSON.stringify(config));
    return this.node.start('registry', 'docker-registry', ['serve', file]);
  }

  async #startController(): Promise<void> {
    const { place } = this;
    const { nodeSilenceSeconds } = this.#options;
    const ca = place.file('pki/ca.crt');
    const manager = { name: 'system:kube-controller-manager' };
    const controller = flags({
      kubeconfig: await this.#keys.userFile(place, 'controller-manager', manager),
      'bind-address': '127.0.0.1',
      'leader-elect': 'false',
      'use-service-account-credentials': 'true',
      'root-ca-file': ca,
      'service-account-private-key-file': this.place.file('pki/accounts.key'),
      'cluster-signing-cert-file': ca,
      'cluster-signing-key-file': this.place.file('pki/ca.key'),
      'cluster-cidr': place.network.pods,
      'allocate-node-cidrs': 'false',
      ...(nodeSilenceSeconds !== undefined && { 'node-monitor-grace-period': `${nodeSilenceSeconds}s` }),
    });
    this.node.start('kube-controller-manager', kubernetesPrograms().controllerManager, controller);
    const scheduler = flags({
      kubeconfig: await this.#keys.userFile(place, 'scheduler', { name: 'system:kube-scheduler' }),
      'bind-address': '127.0.0.1',
      'leader-elect': 'false',
    });
    this.node.start('kube-scheduler', kubernetesPrograms().scheduler, scheduler);
  }

  /** Waits for the default service account. The API server refuses pods of a namespace without one. */
  async #whenAccountsAreMade(): Promise<void> {
    await this.node.program('kube-controller-manager').whenReady(async () => {
      await this.core.readNamespacedServiceAccount({ name: 'default', namespace: 'default' });
      return true;
    });
  }
}

function serverUrl({ network }: ClusterPlace): string {
  return `https://${network.node}:${apiPort}`;
}
