import type { KubeConfig } from '@kubernetes/client-node';
import type { OwnService } from '../../platform/config/own-services.ts';
import type { SandboxSpec } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { PortRange } from '../host-driver.ts';
import type { ImageLimits } from '../images/unpack-layers.ts';

/** How clients outside of the cluster reach UDP ports of sandboxes. Each sandbox with UDP ports has a Service. */
export interface UdpOptions {
  /** The ports that clients use. With `NodePort` they must be node ports of the cluster. */
  range: PortRange;
  /**
   * Where clients find the ports. `NodePort`: on every node. `LoadBalancer`: on one address that all Services share.
   */
  service: 'NodePort' | 'LoadBalancer';
  /**
   * `Cluster`: every node forwards to every sandbox, and the sandbox sees the address of a node as the sender. `Local`:
   * only the sandbox's own node forwards, and the sandbox sees the client's address.
   */
  trafficPolicy: 'Cluster' | 'Local';
  /** The class of Services of type `LoadBalancer`. Undefined: the cluster's default. */
  loadBalancerClass?: string;
  /** Annotations of the Services, for the controller that makes load balancers. */
  annotations?: Readonly<Record<string, string>>;
}

/** Mounts of object storage. They need the mount helper on each node. */
export interface MountOptions {
  /** The image of mount pods. `writeS3fsImage` writes its files. */
  s3fsImage: string;
  /** CIDR ranges outside of the public internet that the operator allows for endpoints. */
  outboundRanges: readonly string[];
  /** The current addresses of the platform's own services, which endpoints may not have. */
  ownServices: () => Promise<OwnService[]>;
}

/** The source of the figures of nodes and pods. */
export type NodeFiguresOptions =
  | {
      /** The driver asks each kubelet. It needs the right `get` on `nodes/stats`, and valid serving certificates. */
      via: 'kubelet';
      /** PEM file of the authorities that signed these certificates. Undefined: the authority of the API server. */
      caFile?: string;
      /** The driver sends kubelets a short-lived token of this service account. Undefined: its own credentials. */
      account?: { namespace: string; name: string };
    }
  /**
   * The API server forwards the request. This needs the right `get` on `nodes/proxy`, which also allows exec in all
   * pods.
   */
  | { via: 'api-server' };

/** The fields from which a warm pod and its disk are made. The pod fits each sandbox whose spec has the same values. */
export type WarmShape = Pick<SandboxSpec, 'image' | 'cpuCount' | 'memoryMb' | 'storageGb'>;

/** Options of warm pods, which are ready before their sandbox is created. */
export interface WarmOptions {
  /** The minimum for the base image, and the maximum for each image and size, which bursts of creates can reach. */
  size: { least: number; most: number };
  /** How much of the nodes' memory all warm pods together may request. Undefined: a sixteenth. */
  memoryMb?: number | undefined;
  /** The default size of sandboxes of the base template. Null: no pod is kept ready before the first create. */
  base: WarmShape | null;
}

export interface KubernetesDriverOptions {
  config: KubeConfig;
  /** The namespace of all objects of the host. */
  namespace: string;
  /** The host of the sandboxes. It must be a valid value of a label. */
  hostId: string;
  /** The image with the agent and its own dynamic loader. `ensureAgentImageFolder` makes its files. */
  agentImage: string;
  /** Returns the reference by which nodes pull the image of a sandbox. */
  resolveImage: (reference: string) => string;
  /** StorageClass of the disks. Undefined: the cluster's default. */
  storageClass?: string;
  /** RuntimeClass of the sandboxes. Undefined: the cluster's default. */
  runtimeClass?: string;
  /** CIDR ranges of the gateways, the API and the host workers. They may open connections to sandboxes. */
  clientRanges: readonly string[];
  /** Namespaces whose pods may open connections to sandboxes, such as the platform's own namespace in this cluster. */
  clientNamespaces?: readonly string[];
  /** CIDR ranges of public addresses that sandboxes may not reach: the API server, nodes, the platform's services. */
  closedRanges?: readonly string[];
  /** Servers in private networks that sandboxes with internet access may reach. */
  openServers?: readonly { address: string; port: number }[];
  /** The Secret in the namespace with which nodes pull images. Undefined: no Secret. */
  pullSecret?: string;
  /** The CIDR range of the cluster's pods. */
  podNetwork: string;
  /**
   * The names of all built-in templates (`builtin:<template>`), and the images that the operator has named for them.
   */
  builtinImages?: { names: readonly string[]; images: Readonly<Record<string, string>> };
  /** The folder for images made of sandboxes, until they are pushed. Undefined: the cluster makes no images. */
  buildsFolder?: string;
  /** Limits for an image outside of the platform's registry when a new image is built on it. */
  imageLimits?: ImageLimits;
  /** DNS servers for sandboxes with internet access. Undefined: the cluster's. */
  dns?: readonly string[];
  /** Undefined: the driver asks each kubelet with its own credentials. */
  nodeFigures?: NodeFiguresOptions;
  /** Undefined: sandboxes have no UDP ports. */
  udp?: UdpOptions;
  /** Undefined: sandboxes have no mounts of object storage. */
  mounts?: MountOptions;
  /** The request of a pod as a share of its limit, from 0 to 1. */
  requestShare?: { cpu: number; memory: number };
  /** Whether pods have their own user namespace (`hostUsers: false`). The cluster must support it. */
  ownUsers?: boolean;
  /** How many pods may start at the same time; others wait. Undefined: eight for each core of the cluster's nodes. */
  maxConcurrentStarts?: number;
  /** How long a new pod may take until its container runs, including the image pull. 120 s by default. */
  podStartTimeoutSeconds?: number;
  /** How long a deleted pod may take until it is gone. 60 s by default. */
  podEndTimeoutSeconds?: number;
  /** How long the agent may take until it answers. 30 s by default. */
  agentStartTimeoutSeconds?: number;
  /** Undefined: there are no warm pods. */
  warm?: WarmOptions | undefined;
  /**
   * How long the node helper may take to freeze or thaw a sandbox; 10 s and 30 s by default. If it does not answer, a
   * pause keeps only the disk, but a resume fails. The thaw time is longer, because the kubelet restarts a killed
   * helper only after ten seconds or more.
   */
  helperTimeoutSeconds?: number;
  logger: DriverLogger;
}
