import { z } from 'zod';
import {
  emptyIsUnset,
  flag,
  isLabel,
  listsByName,
  networks,
  share,
  text,
  textOr,
  textsByName,
  words,
} from './field-types.ts';

const interpreterTemplates = ['code-interpreter', 'code-interpreter-all'];

/** A host that is a Kubernetes cluster (docs/kubernetes.md). */
export const kubernetesSettings = {
  /** The kubeconfig file. Empty: the service account of the pod that this process runs in. */
  PLATFORM_KUBERNETES_KUBECONFIG: text(),
  /** All objects of the sandboxes are in this namespace, which must exist. */
  PLATFORM_KUBERNETES_NAMESPACE: textOr('sandboxes').refine(isLabel, 'must be the name of a namespace'),
  /** The image with the agent, by the reference that nodes pull. */
  PLATFORM_KUBERNETES_AGENT_IMAGE: text(),
  /** The image with s3fs, for mounts of object storage; nodes need the mount helper. Empty: sandboxes have no mounts. */
  PLATFORM_KUBERNETES_S3FS_IMAGE: text(),
  /**
   * Images of the built-in templates `code-interpreter` and `code-interpreter-all`, as `code-interpreter=registry/image;…`;
   * PLATFORM_BASE_IMAGE is that of `base`. A built-in template without an image here cannot be used on the cluster.
   */
  PLATFORM_KUBERNETES_TEMPLATE_IMAGES: listsByName(
    (item) => item !== '',
    'must be template=image;template=image',
  ).refine(
    (images) =>
      Object.entries(images).every(([name, list]) => interpreterTemplates.includes(name) && list.length === 1),
    'must give one image to code-interpreter or code-interpreter-all',
  ),
  /** The Secret in that namespace with which nodes pull images. Empty: none. */
  PLATFORM_KUBERNETES_PULL_SECRET: text(),
  /** StorageClass of the sandboxes' disks. Empty: the cluster's default. */
  PLATFORM_KUBERNETES_STORAGE_CLASS: text(),
  /** RuntimeClass of the sandboxes, such as one of gVisor. Empty: the cluster's default. */
  PLATFORM_KUBERNETES_RUNTIME_CLASS: text(),
  /**
   * Comma-separated networks (CIDR) from which connections to sandboxes are allowed: those of gateways, APIs and host
   * workers.
   */
  PLATFORM_KUBERNETES_CLIENT_RANGES: networks(),
  /**
   * Comma-separated namespaces of the cluster whose pods may also open connections to sandboxes. Network plugins such as
   * Cilium need them, because they do not match pods by CIDR ranges.
   */
  PLATFORM_KUBERNETES_CLIENT_NAMESPACES: z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('')
      .transform((list) => (list === '' ? [] : words(list)))
      .refine((names) => names.every(isLabel), 'must be names of namespaces'),
  ),
  /**
   * `required`: the host worker checks with four pods that the cluster enforces NetworkPolicy, and does not start on one
   * that does not. `unchecked`: it starts without the check; without enforcement, sandboxes reach each other, the nodes and
   * the API server.
   */
  PLATFORM_KUBERNETES_ISOLATION: z.preprocess(emptyIsUnset, z.enum(['required', 'unchecked']).default('required')),
  /**
   * Comma-separated public addresses (CIDR) that are closed to sandboxes: the API server, nodes, services of the platform.
   * Private addresses are always closed.
   */
  PLATFORM_KUBERNETES_CLOSED_RANGES: networks(),
  /**
   * Where the figures of nodes and pods come from: `kubelet`, from each node's kubelet, whose serving certificate must be
   * valid; `api-server`, through the API server, by a right that also runs commands in any pod of the cluster.
   */
  PLATFORM_KUBERNETES_NODE_FIGURES: z.preprocess(emptyIsUnset, z.enum(['kubelet', 'api-server']).default('kubelet')),
  /** PEM file of the authorities that sign kubelets' serving certificates. Empty: the authority of the API server. */
  PLATFORM_KUBERNETES_KUBELET_CA_FILE: text(),
  /**
   * The service account that kubelets see, as `namespace/name`, by tokens that the host worker asks for. Empty: kubelets
   * see the host worker's own credentials; if these are a token, a compromised node can act as the host worker.
   */
  PLATFORM_KUBERNETES_KUBELET_ACCOUNT: text().refine(
    (account) => account === undefined || /^[a-z0-9-]{1,63}\/[a-z0-9.-]{1,253}$/.test(account),
    'must be namespace/name of a service account',
  ),
  /** A pod's resource requests as a share of its limits, which are the sandbox's processors and memory. */
  PLATFORM_KUBERNETES_CPU_REQUEST_SHARE: share(1 / 16),
  PLATFORM_KUBERNETES_MEMORY_REQUEST_SHARE: share(1 / 4),
  /** `false`: each pod has users of its own (`hostUsers: false`), where the cluster can do that. */
  PLATFORM_KUBERNETES_HOST_USERS: flag(true),
  /**
   * The type of the Service that each sandbox with UDP ports gets on a cluster. PLATFORM_UDP_PORTS names the ports: with
   * `NodePort` they are within the cluster's node port range; with `LoadBalancer` all are at one address.
   */
  PLATFORM_KUBERNETES_UDP_SERVICE: z.preprocess(emptyIsUnset, z.enum(['NodePort', 'LoadBalancer']).default('NodePort')),
  /**
   * `Cluster`: every node forwards to every sandbox, and the sandbox does not see the sender's address. `Local`: only the
   * sandbox's own node forwards, and the sandbox sees the sender's address.
   */
  PLATFORM_KUBERNETES_UDP_TRAFFIC_POLICY: z.preprocess(emptyIsUnset, z.enum(['Cluster', 'Local']).default('Cluster')),
  /** loadBalancerClass of those Services. Empty: the cluster's default. */
  PLATFORM_KUBERNETES_UDP_LOAD_BALANCER_CLASS: text(),
  /** Annotations of those Services as a JSON object, for example to choose the load balancer's address. Empty: none. */
  PLATFORM_KUBERNETES_UDP_ANNOTATIONS: textsByName(),
};
