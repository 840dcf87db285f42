import type { KubeConfig } from '@kubernetes/client-node';
import type { OwnService } from '../../config/own-services.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { PortRange } from '../host-driver.ts';
import type { ImageLimits } from '../images/unpack-layers.ts';
import type { WarmShape } from './warm-manifests.ts';

/** How UDP ports of sandboxes are reached from outside of the cluster: by a Service for each sandbox that has some. */
export interface UdpOptions {
  /** The ports that clients use. With `NodePort` they lie within the node ports of the cluster. */
  range: PortRange;
  /** `NodePort`: at every node. `LoadBalancer`: at a load balancer, where all Services share one address. */
  service: 'NodePort' | 'LoadBalancer';
  /**
   * `Cluster`: every node leads to every sandbox, which sees an address of a node as the sender's. `Local`: only the
   * sandbox's own node does, and the sandbox sees the sender's own address.
   */
  trafficPolicy: 'Cluster' | 'Local';
  /** Of a `LoadBalancer`. Undefined: the cluster's default. */
  loadBalancerClass?: string;
  /** Of the Services, for what makes load balancers. */
  annotations?: Readonly<Record<string, string>>;
}

/** Mounts of object storage, for which nodes have the mount helper. */
export interface MountOptions {
  /** The image that `writeS3fsImage` gives the files of. */
  s3fsImage: string;
  /** CIDR ranges beyond the public internet that the operator opened to endpoints. */
  outboundRanges: readonly string[];
  /** The present addresses of the platform's own services, which no endpoint leads to. */
  ownServices: () => Promise<OwnService[]>;
}

/** Where the figures of nodes and pods come from. */
export type NodeFiguresOptions =
  | {
      /** Each kubelet itself, whose serving certificate must be valid: the right `get` on `nodes/stats`. */
      via: 'kubelet';
      /** PEM file of the authorities of these certificates. Undefined: the authority of the API server. */
      caFile?: string;
      /** The service account that kubelets see, by a short-lived token. Undefined: they see the driver's own credentials. */
      account?: { namespace: string; name: string };
    }
  /** The API server, which asks the kubelet: the right `get` on `nodes/proxy`, which also runs commands in any pod. */
  | { via: 'api-server' };

/** Pods that are ready before their sandbox. */
export interface WarmOptions {
  /** Pods of the base image at least; of each image and size at most, after bursts of creates. */
  size: { least: number; most: number };
  /** What all of them may request of the nodes' memory. Undefined: a sixteenth of it. */
  memoryMb?: number | undefined;
  /** What sandboxes of the base template are by default. Null: none is kept ready before the first create. */
  base: WarmShape | null;
}

export interface KubernetesDriverOptions {
  config: KubeConfig;
  /** All objects of its sandboxes are in this namespace. */
  namespace: string;
  /** The host whose sandboxes these are; a value of a label. */
  hostId: string;
  /** The image with the agent and its own loader, as `agentImageFiles` gives its files. */
  agentImage: string;
  /** The image of a sandbox as nodes pull it. */
  imageOf: (reference: string) => string;
  /** StorageClass of the disks. Undefined: the cluster's default. */
  storageClass?: string;
  /** RuntimeClass of the sandboxes. Undefined: the cluster's default. */
  runtimeClass?: string;
  /** Networks, as CIDR, whose machines may open connections to sandboxes: those of gateways, API and host workers. */
  clientRanges: readonly string[];
  /** Namespaces whose pods may do so too, as the platform's where it runs in the same cluster. */
  clientNamespaces?: readonly string[];
  /** Public addresses, as CIDR, that sandboxes do not reach either: the API server, nodes, the platform's services. */
  closedRanges?: readonly string[];
  /** Servers in private networks that sandboxes with internet access may reach all the same. */
  openServers?: readonly { address: string; port: number }[];
  /** The Secret in the namespace that nodes pull images with. Undefined: none. */
  pullSecret?: string;
  /** The network of the cluster's pods, as CIDR. */
  podNetwork: string;
  /** The images of built-in templates, by `builtin:<template>`, and those that could have one. */
  builtinImages?: { names: readonly string[]; images: Readonly<Record<string, string>> };
  /** Where images that are made of sandboxes lie until they are pushed. Undefined: none are made. */
  buildsFolder?: string;
  /** Of an image that is in no registry of the platform, when one is made over it. */
  imageLimits?: ImageLimits;
  /** Resolvers for sandboxes with internet access. Undefined: the cluster's. */
  dns?: readonly string[];
  /** Undefined: each kubelet itself, with the driver's own credentials. */
  nodeFigures?: NodeFiguresOptions;
  /** Undefined: sandboxes have no UDP ports. */
  udp?: UdpOptions;
  /** Undefined: sandboxes have no mounts of object storage. */
  mounts?: MountOptions;
  /** What a pod asks its node for, as a share of its limit, 0 to 1. */
  requestShare?: { cpu: number; memory: number };
  /** User namespaces for the pods (`hostUsers: false`), where the cluster has them. */
  ownUsers?: boolean;
  /** Pods that start at once; others wait for them. Undefined: eight for each core of the cluster's nodes. */
  startsAtOnce?: number;
  /** How long a pod may take until its container runs, image pull included, once it is made; 120 s by default. */
  podStartTimeoutSeconds?: number;
  /** How long a pod may take until it is gone; 60 s by default. */
  podEndTimeoutSeconds?: number;
  /** How long the agent may take to answer, 30 s by default. */
  agentStartTimeoutSeconds?: number;
  /** Undefined: there are no warm pods. */
  warm?: WarmOptions | undefined;
  /**
   * How long a node's helper may take to freeze or thaw a sandbox; 10 s and 30 s by default. A pause without it keeps the
   * disk, a resume cannot go on without it, and the kubelet starts a killed helper again after ten seconds or more.
   */
  helperTimeoutSeconds?: number;
  logger: DriverLogger;
}
