import { mkdirSync, statfsSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import type { OwnService } from '../platform/config/own-services.ts';
import { readSandboxCa } from '../platform/config/sandbox-ca.ts';
import type { Settings } from '../platform/config/settings.ts';
import type { HostDriver } from './host-driver.ts';
import { interpreterRecipes } from './images/builtin-images.ts';
import { defaultImageLimits } from './images/image-store.ts';
import { Cluster } from './kubernetes/cluster.ts';
import { FenceGuard } from './kubernetes/cluster-fence.ts';
import { imageNames } from './kubernetes/cluster-images.ts';
import { openKubernetesDriver } from './kubernetes/driver.ts';
import { requireIsolation } from './kubernetes/isolation-probe.ts';
import type {
  KubernetesDriverOptions,
  MountOptions,
  NodeFiguresOptions,
  UdpOptions,
  WarmOptions,
} from './kubernetes/options.ts';
import { createOciDriver } from './oci/create-driver.ts';
import type { OciDriverOptions } from './oci/options.ts';

/** Facts that a host worker knows in addition to the settings. */
export interface HostServices {
  /** TCP ports at the host's address for sandboxes that all sandboxes may reach. */
  hostServicePorts: number[];
  /** Servers in private networks, or on the host, that sandboxes with internet access may reach. */
  openServers: { address: string; port: number }[];
  /** The current addresses of the platform's own services, which neither object storage nor sandboxes may reach. */
  ownServices: () => Promise<OwnService[]>;
  logger: OciDriverOptions['logger'];
}

const root = path.resolve(import.meta.dirname, '..');

/**
 * Prepares the driver of a host. This is the only function that knows the drivers. For a cluster it checks the
 * isolation before it returns, because the check takes long, and another process may still act as this host meanwhile.
 * @returns a function that opens the driver
 * @throws {IsolationError} when the settings require isolation that the cluster lacks
 */
export async function prepareHostDriver(
  settings: Settings,
  services: HostServices,
): Promise<() => Promise<HostDriver>> {
  if (settings.PLATFORM_DRIVER !== 'kubernetes') {
    const driver = await createMachineDriver(settings, services);
    return async () => driver;
  }
  const options = clusterOptions(settings, services);
  if (settings.PLATFORM_KUBERNETES_ISOLATION === 'required') await requireIsolation(options);
  return () => openKubernetesDriver(options);
}

/** The part that ends the pods of a host that is a cluster when its lease has expired, for a separate process. */
export function createClusterGuard(settings: Settings, logger: HostServices['logger']): FenceGuard {
  const cluster = new Cluster(kubeConfig(settings), settings.PLATFORM_KUBERNETES_NAMESPACE);
  return new FenceGuard({ cluster, hostId: settings.PLATFORM_HOST_ID!, logger });
}

function clusterOptions(
  settings: Settings,
  { openServers, ownServices, logger }: HostServices,
): KubernetesDriverOptions {
  const builtin = listBuiltinImages(settings);
  return {
    config: kubeConfig(settings),
    namespace: settings.PLATFORM_KUBERNETES_NAMESPACE,
    hostId: settings.PLATFORM_HOST_ID!,
    agentImage: settings.PLATFORM_KUBERNETES_AGENT_IMAGE!,
    resolveImage: imageNames({ registry: settings.PLATFORM_REGISTRY?.split('/', 1)[0] ?? null, builtin }),
    builtinImages: { names: Object.keys(interpreterRecipes), images: builtin },
    buildsFolder: path.join(settings.PLATFORM_DATA_DIR, 'builds'),
    imageLimits: toImageLimits(settings),
    pullSecret: settings.PLATFORM_KUBERNETES_PULL_SECRET,
    podNetwork: settings.PLATFORM_SANDBOX_SUBNET!,
    storageClass: settings.PLATFORM_KUBERNETES_STORAGE_CLASS,
    runtimeClass: settings.PLATFORM_KUBERNETES_RUNTIME_CLASS,
    clientRanges: settings.PLATFORM_KUBERNETES_CLIENT_RANGES,
    clientNamespaces: settings.PLATFORM_KUBERNETES_CLIENT_NAMESPACES,
    closedRanges: listClosedRanges(settings),
    nodeFigures: toNodeFiguresOptions(settings),
    udp: toUdpOptions(settings),
    mounts: toMountOptions(settings, ownServices),
    dns: settings.PLATFORM_SANDBOX_DNS?.split(',').map((address) => address.trim()),
    requestShare: {
      cpu: settings.PLATFORM_KUBERNETES_CPU_REQUEST_SHARE,
      memory: settings.PLATFORM_KUBERNETES_MEMORY_REQUEST_SHARE,
    },
    ownUsers: !settings.PLATFORM_KUBERNETES_HOST_USERS,
    warm: toWarmOptions(settings, builtin),
    openServers,
    logger,
  };
}

function toNodeFiguresOptions(settings: Settings): NodeFiguresOptions {
  if (settings.PLATFORM_KUBERNETES_NODE_FIGURES === 'api-server') return { via: 'api-server' };
  const [namespace, name] = settings.PLATFORM_KUBERNETES_KUBELET_ACCOUNT?.split('/') ?? [];
  return {
    via: 'kubelet',
    caFile: settings.PLATFORM_KUBERNETES_KUBELET_CA_FILE,
    ...(namespace && name && { account: { namespace, name } }),
  };
}

/** What a sandbox of the base template has where its request and its account's plan say nothing else. */
const baseShape = { cpuCount: 2, memoryMb: 512, storageGb: 10 };

function toWarmOptions(settings: Settings, builtin: Record<string, string>): WarmOptions | undefined {
  const {
    PLATFORM_WARM_POOL_SIZE: least,
    PLATFORM_WARM_POOL_MAX_SIZE: most,
    PLATFORM_WARM_POOL_MEMORY_MB: memoryMb,
  } = settings;
  if (least === 0) return undefined;
  const image = settings.PLATFORM_BASE_IMAGE ?? (builtin['builtin:base'] ? 'builtin:base' : null);
  return { size: { least, most }, memoryMb: memoryMb || undefined, base: image ? { image, ...baseShape } : null };
}

function toUdpOptions(settings: Settings): UdpOptions | undefined {
  const range = settings.PLATFORM_UDP_PORTS;
  if (!range) return undefined;
  return {
    range,
    service: settings.PLATFORM_KUBERNETES_UDP_SERVICE,
    trafficPolicy: settings.PLATFORM_KUBERNETES_UDP_TRAFFIC_POLICY,
    loadBalancerClass: settings.PLATFORM_KUBERNETES_UDP_LOAD_BALANCER_CLASS,
    annotations: settings.PLATFORM_KUBERNETES_UDP_ANNOTATIONS,
  };
}

function toMountOptions(settings: Settings, ownServices: HostServices['ownServices']): MountOptions | undefined {
  const s3fsImage = settings.PLATFORM_KUBERNETES_S3FS_IMAGE;
  return s3fsImage ? { s3fsImage, outboundRanges: settings.PLATFORM_OUTBOUND_RANGES, ownServices } : undefined;
}

/** The addresses of pods, and the address at which clients reach their UDP ports. */
function listClosedRanges(settings: Settings): string[] {
  const { PLATFORM_UDP_PORTS: ports, PLATFORM_HOST_PUBLIC_ADDRESS: address = '' } = settings;
  return [
    ...settings.PLATFORM_KUBERNETES_CLOSED_RANGES,
    settings.PLATFORM_SANDBOX_SUBNET!,
    ...(ports && net.isIPv4(address) ? [`${address}/32`] : []),
  ];
}

/** The images of the operator's settings, by `builtin:<template>`. */
function listBuiltinImages(settings: Settings): Record<string, string> {
  const images = Object.entries(settings.PLATFORM_KUBERNETES_TEMPLATE_IMAGES).map(
    ([template, [image]]) => [`builtin:${template}`, image!] as const,
  );
  const base = settings.PLATFORM_BASE_IMAGE;
  return Object.fromEntries([...images, ...(base ? [['builtin:base', base] as const] : [])]);
}

function kubeConfig({ PLATFORM_KUBERNETES_KUBECONFIG: file }: Settings): KubeConfig {
  const config = new KubeConfig();
  if (file) config.loadFromFile(file);
  else config.loadFromCluster();
  return config;
}

async function createMachineDriver(settings: Settings, services: HostServices): Promise<HostDriver> {
  const sandboxCa = readSandboxCa(settings);
  return createOciDriver({
    ...(sandboxCa && { sandboxCa }),
    dataDir: settings.PLATFORM_DATA_DIR,
    cacheDir: settings.PLATFORM_CACHE_DIR,
    agentDir: path.join(root, 'agent/dist'),
    runtime: settings.PLATFORM_OCI_RUNTIME,
    subnet: settings.PLATFORM_SANDBOX_SUBNET,
    dns: settings.PLATFORM_SANDBOX_DNS?.split(',').map((address) => address.trim()),
    udpPorts: settings.PLATFORM_UDP_PORTS,
    bandwidthMbps: settings.PLATFORM_SANDBOX_BANDWIDTH_MBPS || undefined,
    routedNetworks: settings.PLATFORM_ROUTED_NETWORKS,
    outboundRanges: settings.PLATFORM_OUTBOUND_RANGES,
    warmPoolSize: settings.PLATFORM_WARM_POOL_SIZE,
    warmPoolMaxSize: settings.PLATFORM_WARM_POOL_MAX_SIZE,
    warmPoolMemoryMb: settings.PLATFORM_WARM_POOL_MEMORY_MB || undefined,
    baseImage: settings.PLATFORM_BASE_IMAGE,
    interpreterRecipes,
    imageCacheBytes: imageCacheBytes(settings),
    imageLimits: toImageLimits(settings),
    registryInsecureHttp: settings.PLATFORM_REGISTRY_INSECURE_HTTP,
    ...(settings.PLATFORM_REGISTRY && {
      registry: {
        address: settings.PLATFORM_REGISTRY.split('/', 1)[0]!,
        insecureHttp: settings.PLATFORM_REGISTRY_INSECURE_HTTP,
        username: settings.PLATFORM_REGISTRY_USERNAME ?? null,
        passwordFile: settings.PLATFORM_REGISTRY_PASSWORD_FILE ?? null,
        caFile: settings.PLATFORM_REGISTRY_CA_FILE ?? null,
      },
    }),
    ...services,
    onTrace: (trace) => services.logger.debug(trace, 'sandbox started'),
  });
}

const toImageLimits = ({ PLATFORM_IMAGE_MAX_GB: gb }: Settings) => ({
  ...defaultImageLimits,
  maxBytes: gb * 1024 ** 3,
});

/** The budget of the image cache in the settings. The default is a fifth of the file system. */
function imageCacheBytes({ PLATFORM_IMAGE_CACHE_GB: gb, PLATFORM_CACHE_DIR: folder }: Settings): number {
  if (gb > 0) return gb * 1024 ** 3;
  mkdirSync(folder, { recursive: true });
  const { blocks, bsize } = statfsSync(folder);
  return Math.floor((blocks * bsize) / 5);
}
