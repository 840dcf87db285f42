import path from 'node:path';

/**
 * The network configuration of pods. Each pod has a pair of links to the node, so that all packets between pods pass
 * the node's firewall.
 * @param plugins further plugins, which are called after those that make the network
 */
export function podNetwork({ pods, plugins }: { pods: string; plugins: object[] }): string {
  const addresses = { type: 'host-local', dataDir: '/run/pod-addresses', ranges: [[{ subnet: pods }]] };
  return JSON.stringify({
    cniVersion: '1.0.0',
    name: 'pods',
    plugins: [
      { type: 'ptp', ipam: { ...addresses, routes: [{ dst: '0.0.0.0/0' }] } },
      { type: 'portmap', capabilities: { portMappings: true } },
      ...plugins,
    ],
  });
}

/**
 * @param of.folder the folder of the node
 * @param of.plugins the folder of the network plugins
 * @param of.gvisorConfig the file with `gvisorConfig`
 */
export function containerdConfig(of: {
  folder: string;
  socket: string;
  pauseImage: string;
  plugins: string;
  gvisorConfig: string;
}): string {
  const { folder, socket, pauseImage, plugins } = of;
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  return `version = 2
root = "${folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "${socket}"
[${cri}]
  sandbox_image = "${pauseImage}"
  stream_server_address = "127.0.0.1"
  disable_apparmor = true
  # Without the capability CAP_SYS_RESOURCE, containerd cannot lower the OOM score, and no pod would start.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[${cri}.cni]
  bin_dir = "${plugins}"
  conf_dir = "${folder}/cni"
[${cri}.registry]
  config_path = "${folder}/registries"
[${cri}.containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[${cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[${cri}.containerd.runtimes.runc.options]
  SystemdCgroup = false
# The same runtime under another name, for tests of runtime classes.
[${cri}.containerd.runtimes.other]
  runtime_type = "io.containerd.runc.v2"
[${cri}.containerd.runtimes.other.options]
  Root = "/run/containerd/other"
  SystemdCgroup = false
[${cri}.containerd.runtimes.${gvisorHandler}]
  runtime_type = "io.containerd.runsc.v1"
[${cri}.containerd.runtimes.${gvisorHandler}.options]
  TypeUrl = "io.containerd.runsc.v1.options"
  ConfigPath = "${of.gvisorConfig}"
`;
}

/** The name by which a RuntimeClass refers to gVisor. */
export const gvisorHandler = 'runsc';

/** `systrap` needs no virtualization of the machine. */
export const gvisorConfig = `root = "/run/containerd/runsc"
[runsc_config]
platform = "systrap"
`;

export function kubeletConfig(options: {
  /** The address of the node. */
  address: string;
  /** The folder of the node. */
  folder: string;
  /** The socket of containerd. */
  containerd: string;
  cgroupRoot: string;
  certificate: string;
  key: string;
  /** The part of the machine's memory that pods cannot request, such as `2Gi`. */
  reservedMemory?: string;
}): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: options.address,
    healthzBindAddress: '127.0.0.1',
    containerRuntimeEndpoint: `unix://${options.containerd}`,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: options.cgroupRoot,
    failCgroupV1: false,
    failSwapOn: false,
    makeIPTablesUtilChains: false,
    maxPods: 250,
    tlsCertFile: options.certificate,
    tlsPrivateKeyFile: options.key,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: path.join(options.folder, 'pki/ca.crt') },
    },
    authorization: { mode: 'Webhook' },
    resolvConf: path.join(options.folder, 'resolv.conf'),
    podLogsDir: '/var/log/pods',
    volumePluginDir: path.join(options.folder, 'volume-plugins'),
    serializeImagePulls: false,
    registryPullQPS: 0,
    imageGCHighThresholdPercent: 100,
    // A killed node helper starts again after one second. By default the kubelet waits up to five minutes.
    featureGates: { KubeletCrashLoopBackOffMax: true },
    crashLoopBackOff: { maxContainerRestartPeriod: '1s' },
    ...(options.reservedMemory !== undefined && { systemReserved: { memory: options.reservedMemory } }),
    // The limits are low, because other programs use memory and disk of the machine too.
    evictionHard: {
      'memory.available': '100Mi',
      'nodefs.available': '1%',
      'imagefs.available': '1%',
      'nodefs.inodesFree': '1%',
    },
  };
}

export function proxyConfig(options: { nodeName: string; node: string; pods: string; kubeconfig: string }): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'nftables',
    bindAddress: options.node,
    clusterCIDR: options.pods,
    hostnameOverride: options.nodeName,
    healthzBindAddress: '127.0.0.1:10256',
    metricsBindAddress: '127.0.0.1:10249',
    clientConnection: { kubeconfig: options.kubeconfig },
    // kube-proxy changes none of these settings, because they belong to the whole machine.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  };
}

/** Records each request of one user once: a watch when it starts, and other requests when they are answered. */
export function auditPolicy(user: string): object {
  const omitStages = ['RequestReceived', 'Panic'];
  return {
    apiVersion: 'audit.k8s.io/v1',
    kind: 'Policy',
    rules: [
      { level: 'Metadata', users: [user], verbs: ['watch'], omitStages: [...omitStages, 'ResponseComplete'] },
      { level: 'Metadata', users: [user], omitStages: [...omitStages, 'ResponseStarted'] },
      { level: 'None' },
    ],
  };
}
