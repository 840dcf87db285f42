import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import { CoreV1Api, type KubeConfig, type V1Pod } from '@kubernetes/client-node';
import { kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { digestOf, pushImage } from '../../support/pushed-image.ts';
import { layerOf, tar } from '../../support/tar-layer.ts';
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
   * `node`: one node that runs pods, with containerd, kube-proxy and a registry. `api-only`: API server and etcd alone, for
   * what needs objects and no containers. No scheduler and no garbage collector runs there.
   */
  kind?: 'node' | 'api-only';
  /** Whether something enforces NetworkPolicies: Cilium, which takes 20 s more to start. Not by default. */
  enforcesPolicies?: boolean;
  /** A user whose requests to the API server are recorded, for `recordedRequests`. */
  recordedUser?: string;
  /** How long a node may be silent before the cluster takes it for lost. Undefined: Kubernetes's default, 50 s. */
  nodeSilenceSeconds?: number;
}

/** As the API server received it: `/api/v1/pods?watch=true`. */
export interface RecordedRequest {
  /** `get`, `list`, `watch`, `patch`, … */
  verb: string;
  uri: string;
  status: number;
}

/**
 * A Kubernetes cluster on this machine, in namespaces of its own: the machine reaches the API server, the registry and
 * the pods over one link, and nothing of it is on a port of the machine. It ends with the process that started it.
 */
export class KubernetesCluster {
  readonly place: ClusterPlace;
  readonly node: ClusterNode;
  /** `https://<address>:<port>`. */
  readonly server: string;
  /** Host and port of the registry, the same for pods' images and for who pushes. Plain HTTP. */
  readonly registry: string;
  readonly #keys: ClusterKeys;
  readonly #admin: KubeConfig;
  readonly #options: ClusterOptions;
  /** The first of them has the other parts of the cluster, too. */
  readonly #nodes: PodNode[] = [];
  #pauseImage = '';

  private constructor(
    options: ClusterOptions,
    { place, node, keys, admin }: { place: ClusterPlace; node: ClusterNode; keys: ClusterKeys; admin: KubeConfig },
  ) {
    this.#options = options;
    this.place = place;
    this.node = node;
    this.server = serverOf(place);
    this.registry = `${place.network.node}:${registryPort}`;
    this.#keys = keys;
    this.#admin = admin;
  }

  static async start(options: ClusterOptions = {}): Promise<KubernetesCluster> {
    const place = await ClusterPlace.take();
    let node: ClusterNode | undefined;
    try {
      node = await ClusterNode.start(place);
      const keys = await ClusterKeys.create(serverOf(place));
      fs.mkdirSync(place.file('pki'));
      const administrator = { name: 'admin', group: 'system:masters' };
      await keys.userFile(place, 'admin', administrator);
      const admin = await keys.configOf(administrator);
      const cluster = new KubernetesCluster(options, { place, node, keys, admin });
      await cluster.#startApi(options.recordedUser);
      if (options.kind !== 'api-only') await cluster.#startFirstNode();
      return cluster;
    } catch (error) {
      await node?.stop();
      await place.giveBack();
      throw error;
    }
  }

  /** Of an administrator. */
  get config(): KubeConfig {
    return this.#admin;
  }

  get core(): CoreV1Api {
    return this.#admin.makeApiClient(CoreV1Api);
  }

  /** A file for kubectl and Helm, of an administrator. */
  get kubeConfigFile(): string {
    return this.place.file('admin.kubeconfig');
  }

  /** Of a user who has the roles alone that are bound to it. */
  configOf(subject: Subject): Promise<KubeConfig> {
    return this.#keys.configOf(subject);
  }

  /**
   * Adds a node in namespaces of its own, with a link to each node that is there.
   * @param options.reservedMemory memory of the machine that its pods do not get, such as `2Gi`
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
      await place.giveBack();
      throw error;
    }
  }

  /** Starts a node again whose power was off. */
  async powerOn(added: PodNode): Promise<void> {
    const others = this.#nodes.filter((each) => each !== added);
    await added.powerOn(async (node) => {
      for (const other of others) await joinNodes(other, { node, place: added.place });
    });
  }

  /** The node that a pod is on. */
  nodeOf({ metadata, spec }: V1Pod): PodNode {
    const found = this.#nodes.find(({ name }) => name === spec?.nodeName);
    if (!found) throw new Error(`${metadata?.name} is on no node`);
    return found;
  }

  /**
   * Puts an image into the registry. @returns its reference, with the digest
   * @param files by path, without folders
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
      layers: [layerOf(entries)],
      config: { config, rootfs: { type: 'layers', diff_ids: [digestOf(tar(entries))] } },
    });
    return `${this.registry}/${name}@${digest}`;
  }

  /** The requests of the recorded user until now; a watch is recorded when it begins, and has no status. */
  recordedRequests(): RecordedRequest[] {
    const lines = fs.readFileSync(this.place.file('audit.log'), 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => {
      const { verb, requestURI, responseStatus } = JSON.parse(line);
      return { verb, uri: requestURI, status: responseStatus?.code ?? 0 };
    });
  }

  /** Removes the cluster with everything in it. */
  async stop(): Promise<void> {
    for (const { node, place } of this.#nodes.slice(1).reverse()) {
      place.groups.thaw();
      await node.stop();
      await place.giveBack();
    }
    this.place.groups.thaw();
    await this.node.stop();
    await this.place.giveBack();
  }

  /** etcd and the API server. */
  async #startApi(recordedUser?: string): Promise<void> {
    const { place } = this;
    const { network } = place;
    const etcdArgs = {
      name: firstNode,
      // What a test keeps there is gone with the test.
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

  /** After its end. Returns when it answers. */
  async startAgain(name: 'containerd' | 'kube-apiserver' | 'registry'): Promise<void> {
    if (name === 'containerd') return this.#nodes[0]!.startContainerdAgain();
    const answers = {
      'kube-apiserver': () => this.#apiAnswers(),
      registry: () => this.#registryAnswers(),
    }[name];
    await this.node.startAgain(name).whenReady(answers);
  }

  /** That of the first node, after its end. Returns when it answers. */
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

  /** What makes pods of objects. */
  async #startFirstNode(): Promise<void> {
    const registry = this.#startRegistry();
    await registry.whenReady(() => this.#registryAnswers());
    const catatonit = fs.readFileSync('/usr/bin/catatonit');
    this.#pauseImage = await this.push(
      'pause',
      { pause: { content: catatonit, mode: 0o755 } },
      // It waits for its end, and reaps.
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
    // YAML, of which JSON is a part.
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

  /** A pod is refused until its namespace has its service account. */
  async #whenAccountsAreMade(): Promise<void> {
    await this.node.program('kube-controller-manager').whenReady(async () => {
      await this.core.readNamespacedServiceAccount({ name: 'default', namespace: 'default' });
      return true;
    });
  }
}

function serverOf({ network }: ClusterPlace): string {
  return `https://${network.node}:${apiPort}`;
}
