import fs from 'node:fs';
import path from 'node:path';
import { CoordinationV1Api, CoreV1Api, type KubeConfig } from '@kubernetes/client-node';
import { gvisorPrograms, kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { fullPath } from '../../../platform/config/programs.mjs';
import { until } from '../../support/until.ts';
import type { ClusterKeys } from './cluster-keys.ts';
import { ClusterNode, flags } from './cluster-node.ts';
import type { ClusterPlace } from './cluster-place.ts';
import { containerdConfig, gvisorConfig, kubeletConfig, podNetwork, proxyConfig } from './node-configuration.ts';
import { ciliumPlugin, cniPlugins, pluginsWithCilium, startCilium } from './policy-enforcer.ts';

const containerdSocket = '/run/containerd.sock';

export interface PodNodeOptions {
  /** The name of the Node object. */
  name: string;
  place: ClusterPlace;
  keys: ClusterKeys;
  /** The configuration of an administrator. */
  admin: KubeConfig;
  /** The kubeconfig of an administrator. */
  adminFile: string;
  /** Host and port of a registry without TLS. */
  registry: string;
  pauseImage: string;
  enforcesPolicies: boolean;
  /** The part of the machine's memory that pods of the node cannot request, such as `2Gi`. */
  reservedMemory?: string;
}

/**
 * The programs that run pods on one node: containerd, kubelet, kube-proxy and, with network policies, Cilium's agent.
 */
export class PodNode {
  readonly name: string;
  readonly place: ClusterPlace;
  readonly #options: PodNodeOptions;
  #node: ClusterNode;

  /** @param node the namespaces in which the programs run */
  constructor(node: ClusterNode, options: PodNodeOptions) {
    this.#node = node;
    this.#options = options;
    this.name = options.name;
    this.place = options.place;
  }

  get node(): ClusterNode {
    return this.#node;
  }

  /** Starts the programs, and returns when the cluster can place pods on the node. */
  async start(): Promise<void> {
    this.place.groups.make();
    fs.mkdirSync(this.place.file('pki'), { recursive: true });
    this.#options.keys.caFile(this.place);
    this.#writeRuntimeFiles();
    await this.#startPrograms();
  }

  /** Starts containerd again, after its end. */
  async startContainerdAgain(): Promise<void> {
    await this.#node.startAgain('containerd').whenReady(() => this.#containerdAnswers());
  }

  /** Ends all processes of the node at once, like a power loss. The node does not report this to the cluster. */
  async powerOff(): Promise<void> {
    // A frozen process cannot end.
    this.place.groups.thaw();
    await this.#node.stop();
    await this.place.groups.remove();
    await until(() => !this.place.hasLink, 30_000);
  }

  /**
   * Starts the programs again on the same disk, and returns when the cluster can place pods on the node.
   * @param join restores the links to other nodes
   */
  async powerOn(join: (node: ClusterNode) => Promise<void>): Promise<void> {
    this.#node = await ClusterNode.start(this.place);
    await join(this.#node);
    this.place.groups.make();
    await this.#startPrograms();
  }

  /** Starts the kubelet, also after its end. Returns when it has renewed its lease and the node is ready. */
  async startKubelet(): Promise<void> {
    const { name, place } = this;
    const { keys, admin, reservedMemory } = this.#options;
    const address = place.network.node;
    const serving = await keys.keyPair(place, 'kubelet', {
      name,
      answersFor: [
        { type: 'dns', value: name },
        { type: 'ip', value: address },
      ],
    });
    const config = kubeletConfig({
      address,
      folder: place.folder,
      containerd: containerdSocket,
      cgroupRoot: place.groups.path,
      certificate: serving.certificate,
      key: serving.key,
      ...(reservedMemory !== undefined && { reservedMemory }),
    });
    fs.copyFileSync('/etc/resolv.conf', place.file('resolv.conf'));
    const kubelet = this.#node.startWithSettings(
      'kubelet',
      kubernetesPrograms().kubelet,
      flags({
        config: place.write('kubelet.json', JSON.stringify(config)),
        kubeconfig: await keys.userFile(place, 'kubelet', { name: `system:node:${name}`, group: 'system:nodes' }),
        'root-dir': place.file('kubelet'),
        'hostname-override': name,
        'node-ip': address,
      }),
      {
        settings: { 'vm/overcommit_memory': '1', 'kernel/panic': '10', 'kernel/panic_on_oops': '1' },
        folder: place.file('kubelet-settings'),
      },
    );
    const startedMs = Date.now();
    const [leases, core] = [admin.makeApiClient(CoordinationV1Api), admin.makeApiClient(CoreV1Api)];
    await kubelet.whenReady(async () => {
      // After a restart the node's status may still be that of the last kubelet, so its lease is checked too.
      const lease = await leases.readNamespacedLease({ namespace: 'kube-node-lease', name });
      const { status } = await core.readNode({ name });
      const isReady = status?.conditions?.some(
        (condition) => condition.type === 'Ready' && condition.status === 'True',
      );
      // The client returns this time as a string, although its type says Date.
      return Date.parse(String(lease.spec!.renewTime)) > startedMs && isReady === true;
    });
  }

  async #startPrograms(): Promise<void> {
    // containerd finds the shims of other runtimes than runc by this path.
    const programs = `PATH=${gvisorPrograms().dir}:${fullPath()}`;
    const command = [programs, 'containerd', '--config', this.place.file('containerd.toml')];
    const containerd = this.#node.start('containerd', 'env', command);
    await containerd.whenReady(() => this.#containerdAnswers());
    await this.startKubelet();
    await this.#startProxy();
    if (!this.#options.enforcesPolicies) return;
    const { name, place } = this;
    await startCilium(this.#node, { place, nodeName: name, kubeConfig: this.#options.adminFile });
  }

  #writeRuntimeFiles(): void {
    const { place } = this;
    const { registry, pauseImage, enforcesPolicies } = this.#options;
    fs.mkdirSync(place.file('cni'));
    const { pods } = place.network;
    place.write('cni/10-pods.conflist', podNetwork({ pods, plugins: enforcesPolicies ? [ciliumPlugin] : [] }));
    const hosts = place.file(`registries/${registry}`);
    fs.mkdirSync(hosts, { recursive: true });
    const host = `[host."http://${registry}"]\n  capabilities = ["pull", "resolve"]\n`;
    fs.writeFileSync(path.join(hosts, 'hosts.toml'), `server = "http://${registry}"\n${host}`);
    const config = containerdConfig({
      folder: place.folder,
      socket: containerdSocket,
      pauseImage,
      plugins: enforcesPolicies ? pluginsWithCilium(place) : cniPlugins,
      gvisorConfig: place.write('runsc.toml', gvisorConfig),
    });
    place.write('containerd.toml', config);
  }

  async #containerdAnswers(): Promise<boolean> {
    await this.#node.run('ctr', ['--address', containerdSocket, 'version']);
    return true;
  }

  async #startProxy(): Promise<void> {
    const { name, place } = this;
    const { node, pods } = place.network;
    const kubeconfig = await this.#options.keys.userFile(place, 'proxy', { name: 'system:kube-proxy' });
    const config = place.write('proxy.json', JSON.stringify(proxyConfig({ nodeName: name, node, pods, kubeconfig })));
    const proxy = this.#node.start('kube-proxy', kubernetesPrograms().proxy, flags({ config }));
    await proxy.whenReady(async () => {
      await this.#node.run('nft', ['list', 'chain', 'ip', 'kube-proxy', 'services']);
      return true;
    });
  }
}
