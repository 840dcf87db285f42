import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { CoordinationV1Api, CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { digestOf, pushImage } from '../../support/pushed-image.ts';
import { layerOf, tar } from '../../support/tar-layer.ts';
import { type KeyPair, type Subject, TestCa } from '../../support/test-ca.ts';
import { ClusterNode, type NodeProgram } from './cluster-node.ts';
import { ClusterPlace } from './cluster-place.ts';
import { auditPolicy, containerdConfig, kubeletConfig, podNetwork, proxyConfig } from './node-configuration.ts';
import { ciliumPlugin, cniPlugins, pluginsWithCilium, startCilium } from './policy-enforcer.ts';

const nodeName = 'node-1';
const apiPort = 6443;
const registryPort = 5000;
const etcd = 'http://127.0.0.1:2379';

export interface ClusterOptions {
  /**
   * `node`: one node that runs pods, with containerd, kube-proxy and a registry. `api-only`: API server and etcd alone, for
   * what needs objects and no containers; nobody schedules or collects anything there.
   */
  kind?: 'node' | 'api-only';
  /** Whether something enforces NetworkPolicies: Cilium, which takes 20 s more to start. Not by default. */
  enforcesPolicies?: boolean;
  /** A user whose requests to the API server are recorded, for `recordedRequests`. */
  recordedUser?: string;
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
  readonly #ca: TestCa;
  readonly #admin: KubeConfig;

  private constructor(place: ClusterPlace, node: ClusterNode, ca: TestCa, admin: KubeConfig) {
    this.place = place;
    this.node = node;
    this.server = serverOf(place);
    this.registry = `${place.network.node}:${registryPort}`;
    this.#ca = ca;
    this.#admin = admin;
  }

  static async start({
    kind = 'node',
    enforcesPolicies = false,
    recordedUser,
  }: ClusterOptions = {}): Promise<KubernetesCluster> {
    const place = await ClusterPlace.take();
    let node: ClusterNode | undefined;
    try {
      node = await ClusterNode.start(place);
      const ca = await TestCa.create();
      const config = kubeConfig(place, ca, await ca.issue({ name: 'admin', group: 'system:masters' }));
      const admin = new KubeConfig();
      admin.loadFromString(JSON.stringify(config));
      writeFile(place, 'admin.kubeconfig', JSON.stringify(config));
      const cluster = new KubernetesCluster(place, node, ca, admin);
      await cluster.#startApi(recordedUser);
      if (kind === 'node') await cluster.#startNode(enforcesPolicies);
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
    return path.join(this.place.folder, 'admin.kubeconfig');
  }

  /** Of a user who has the roles alone that are bound to it. */
  async configOf(subject: Subject): Promise<KubeConfig> {
    const config = new KubeConfig();
    config.loadFromString(JSON.stringify(kubeConfig(this.place, this.#ca, await this.#ca.issue(subject))));
    return config;
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
    const lines = fs.readFileSync(this.#file('audit.log'), 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => {
      const { verb, requestURI, responseStatus } = JSON.parse(line);
      return { verb, uri: requestURI, status: responseStatus?.code ?? 0 };
    });
  }

  /** Removes the cluster with everything in it. */
  async stop(): Promise<void> {
    this.place.groups.thaw();
    await this.node.stop();
    await this.place.giveBack();
  }

  /** etcd and the API server. */
  async #startApi(recordedUser?: string): Promise<void> {
    const { network } = this.place;
    const [etcdData, pki] = [this.#file('etcd'), this.#file('pki')];
    fs.mkdirSync(pki);
    const etcdArgs = {
      name: nodeName,
      // What a test keeps there is gone with the test.
      'unsafe-no-fsync': 'true',
      'log-level': 'warn',
      'data-dir': etcdData,
      'listen-client-urls': etcd,
      'advertise-client-urls': etcd,
      'listen-peer-urls': 'http://127.0.0.1:2380',
      'initial-advertise-peer-urls': 'http://127.0.0.1:2380',
      'initial-cluster': `${nodeName}=http://127.0.0.1:2380`,
    };
    this.node.start('etcd', kubernetesPrograms().etcd, flags(etcdArgs));

    const names = ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'];
    const addresses = ['127.0.0.1', network.firstService, network.node];
    const serving = await this.#keyPair('apiserver', {
      name: 'kube-apiserver',
      answersFor: [
        ...names.map((value) => ({ type: 'dns' as const, value })),
        ...addresses.map((value) => ({ type: 'ip' as const, value })),
      ],
    });
    const toKubelet = await this.#keyPair('apiserver-kubelet', { name: 'kube-apiserver', group: 'system:masters' });
    const accounts = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    });
    const ca = this.#write('pki/ca.crt', this.#ca.pair.certificate);
    this.#write('pki/ca.key', this.#ca.pair.key);
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
        'service-account-key-file': this.#write('pki/accounts.pub', accounts.publicKey),
        'service-account-signing-key-file': this.#write('pki/accounts.key', accounts.privateKey),
        profiling: 'false',
        ...(recordedUser !== undefined && {
          'audit-policy-file': this.#write('audit.json', JSON.stringify(auditPolicy(recordedUser))),
          'audit-log-path': this.#file('audit.log'),
        }),
      }),
    );
    await api.whenReady(() => this.#apiAnswers());
  }

  /** After its end. Returns when it answers. */
  async startAgain(name: 'containerd' | 'kube-apiserver' | 'registry'): Promise<void> {
    const answers = {
      containerd: () => this.#containerdAnswers(),
      'kube-apiserver': () => this.#apiAnswers(),
      registry: () => this.#registryAnswers(),
    }[name];
    await this.node.startAgain(name).whenReady(answers);
  }

  async #containerdAnswers(): Promise<boolean> {
    await this.node.run('ctr', ['--address', this.#containerdSocket, 'version']);
    return true;
  }

  async #apiAnswers(): Promise<boolean> {
    await this.core.readNamespace({ name: 'default' });
    return true;
  }

  async #registryAnswers(): Promise<boolean> {
    return (await fetch(`http://${this.registry}/v2/`)).ok;
  }

  /** What makes pods of objects. */
  async #startNode(enforcesPolicies: boolean): Promise<void> {
    this.place.groups.make();
    const registry = this.#startRegistry();
    await registry.whenReady(() => this.#registryAnswers());
    const catatonit = fs.readFileSync('/usr/bin/catatonit');
    const pause = await this.push(
      'pause',
      { pause: { content: catatonit, mode: 0o755 } },
      // It waits for its end, and reaps.
      { Entrypoint: ['/pause', '-P'] },
    );
    const containerd = await this.#startContainerd(pause, enforcesPolicies);
    await this.#startController();
    await containerd.whenReady(() => this.#containerdAnswers());
    await this.startKubelet();
    await this.#startProxy();
    if (enforcesPolicies) {
      await startCilium(this.node, { place: this.place, nodeName, kubeConfig: this.kubeConfigFile });
    }
    await this.#whenAccountsAreMade();
  }

  #startRegistry(): NodeProgram {
    const config = {
      version: '0.1',
      log: { level: 'warn', accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: this.#file('registry') } },
      http: { addr: this.registry },
    };
    // YAML, of which JSON is a part.
    const file = this.#write('registry.json', JSON.stringify(config));
    return this.node.start('registry', 'docker-registry', ['serve', file]);
  }

  async #startContainerd(pauseImage: string, enforcesPolicies: boolean): Promise<NodeProgram> {
    const { place, registry } = this;
    fs.mkdirSync(this.#file('cni'));
    const { pods } = place.network;
    this.#write('cni/10-pods.conflist', podNetwork({ pods, plugins: enforcesPolicies ? [ciliumPlugin] : [] }));
    const hosts = this.#file(`registries/${registry}`);
    fs.mkdirSync(hosts, { recursive: true });
    const host = `[host."http://${registry}"]\n  capabilities = ["pull", "resolve"]\n`;
    fs.writeFileSync(path.join(hosts, 'hosts.toml'), `server = "http://${registry}"\n${host}`);
    const containerd = containerdConfig({
      folder: place.folder,
      socket: this.#containerdSocket,
      pauseImage,
      plugins: enforcesPolicies ? pluginsWithCilium(place) : cniPlugins,
    });
    const config = this.#write('containerd.toml', containerd);
    return this.node.start('containerd', 'containerd', ['--config', config]);
  }

  async #startController(): Promise<void> {
    const { pods } = this.place.network;
    const ca = this.#file('pki/ca.crt');
    const controller = flags({
      kubeconfig: await this.#userFile('controller-manager', { name: 'system:kube-controller-manager' }),
      'bind-address': '127.0.0.1',
      'leader-elect': 'false',
      'use-service-account-credentials': 'true',
      'root-ca-file': ca,
      'service-account-private-key-file': this.#file('pki/accounts.key'),
      'cluster-signing-cert-file': ca,
      'cluster-signing-key-file': this.#file('pki/ca.key'),
      'cluster-cidr': pods,
      'allocate-node-cidrs': 'false',
    });
    this.node.start('kube-controller-manager', kubernetesPrograms().controllerManager, controller);
    const scheduler = flags({
      kubeconfig: await this.#userFile('scheduler', { name: 'system:kube-scheduler' }),
      'bind-address': '127.0.0.1',
      'leader-elect': 'false',
    });
    this.node.start('kube-scheduler', kubernetesPrograms().scheduler, scheduler);
  }

  /** Also after its end. */
  async startKubelet(): Promise<void> {
    const { node: address } = this.place.network;
    const serving = await this.#keyPair('kubelet', {
      name: nodeName,
      answersFor: [
        { type: 'dns', value: nodeName },
        { type: 'ip', value: address },
      ],
    });
    const config = kubeletConfig({
      address,
      folder: this.place.folder,
      containerd: this.#containerdSocket,
      cgroupRoot: this.place.groups.path,
      certificate: serving.certificate,
      key: serving.key,
    });
    fs.copyFileSync('/etc/resolv.conf', this.#file('resolv.conf'));
    const kubelet = this.node.startWithSettings(
      'kubelet',
      kubernetesPrograms().kubelet,
      flags({
        config: this.#write('kubelet.json', JSON.stringify(config)),
        kubeconfig: await this.#userFile('kubelet', { name: `system:node:${nodeName}`, group: 'system:nodes' }),
        'root-dir': this.#file('kubelet'),
        'hostname-override': nodeName,
        'node-ip': address,
      }),
      {
        settings: { 'vm/overcommit_memory': '1', 'kernel/panic': '10', 'kernel/panic_on_oops': '1' },
        folder: this.#file('kubelet-settings'),
      },
    );
    const startedMs = Date.now();
    const leases = this.#admin.makeApiClient(CoordinationV1Api);
    await kubelet.whenReady(async () => {
      // After a restart the node's status is still what the last kubelet said.
      const lease = await leases.readNamespacedLease({ namespace: 'kube-node-lease', name: nodeName });
      const { status } = await this.core.readNode({ name: nodeName });
      const isReady = status?.conditions?.some(
        (condition) => condition.type === 'Ready' && condition.status === 'True',
      );
      // The client gives this time as text, whatever its types say.
      return Date.parse(String(lease.spec!.renewTime)) > startedMs && isReady === true;
    });
  }

  async #startProxy(): Promise<void> {
    const { node, pods } = this.place.network;
    const kubeconfig = await this.#userFile('proxy', { name: 'system:kube-proxy' });
    const config = this.#write('proxy.json', JSON.stringify(proxyConfig({ nodeName, node, pods, kubeconfig })));
    const proxy = this.node.start('kube-proxy', kubernetesPrograms().proxy, flags({ config }));
    await proxy.whenReady(async () => {
      await this.node.run('nft', ['list', 'chain', 'ip', 'kube-proxy', 'services']);
      return true;
    });
  }

  /** A pod is refused until its namespace has its service account. */
  async #whenAccountsAreMade(): Promise<void> {
    await this.node.program('kube-controller-manager').whenReady(async () => {
      await this.core.readNamespacedServiceAccount({ name: 'default', namespace: 'default' });
      return true;
    });
  }

  get #containerdSocket(): string {
    return '/run/containerd.sock';
  }

  #file(name: string): string {
    return path.join(this.place.folder, name);
  }

  #write(name: string, text: string): string {
    return writeFile(this.place, name, text);
  }

  /** @returns the files */
  async #keyPair(name: string, subject: Subject): Promise<KeyPair> {
    const { certificate, key } = await this.#ca.issue(subject);
    return {
      certificate: this.#write(`pki/${name}.crt`, certificate),
      key: this.#write(`pki/${name}.key`, key),
    };
  }

  /** @returns the file */
  async #userFile(name: string, subject: Subject): Promise<string> {
    const pair = await this.#ca.issue(subject);
    return this.#write(`${name}.kubeconfig`, JSON.stringify(kubeConfig(this.place, this.#ca, pair)));
  }
}

function serverOf({ network }: ClusterPlace): string {
  return `https://${network.node}:${apiPort}`;
}

function writeFile(place: ClusterPlace, name: string, text: string): string {
  const file = path.join(place.folder, name);
  fs.writeFileSync(file, text, { mode: 0o600 });
  return file;
}

function flags(values: Record<string, string>): string[] {
  return Object.entries(values).map(([name, value]) => `--${name}=${value}`);
}

function kubeConfig(place: ClusterPlace, ca: TestCa, { certificate, key }: KeyPair): object {
  const base64 = (pem: string) => Buffer.from(pem).toString('base64');
  const cluster = { server: serverOf(place), 'certificate-authority-data': base64(ca.pair.certificate) };
  const user = { 'client-certificate-data': base64(certificate), 'client-key-data': base64(key) };
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'user', user }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'user' } }],
    'current-context': 'test',
  };
}
