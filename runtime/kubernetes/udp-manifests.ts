import type { V1NetworkPolicy, V1Service } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { UdpMapping } from '../../domain/sandboxes/ports.ts';
import { buildMetadata, type ManifestOptions, type OwnerDisk, ownedBy, ownerLabels } from './manifests.ts';
import { labels } from './names.ts';
import type { UdpOptions } from './options.ts';

/** The parts of the options that these objects are made from. */
export type UdpManifestOptions = Pick<ManifestOptions, 'hostId' | 'namespace'> & { udp: UdpOptions };

/** The name of the policy that opens UDP ports of a sandbox, in addition to the sandbox's main policy. */
export const udpPolicyName = (sandboxId: SandboxId) => `${sandboxId}-udp`;

/**
 * The Service that forwards UDP ports of the nodes or of a load balancer to the current pod of a sandbox.
 * @param disk the owner of the Service; the cluster deletes the Service together with the disk
 */
export function buildUdpService(
  sandboxId: SandboxId,
  ports: readonly UdpMapping[],
  disk: OwnerDisk,
  options: UdpManifestOptions,
): V1Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      ...buildMetadata({ sandboxId }, options),
      ...buildAnnotations(options.udp),
      ownerReferences: ownedBy(disk),
    },
    spec: {
      ...buildServiceKind(options.udp),
      selector: { [labels.sandbox]: disk.name },
      // Each port is named after the port that clients use, because two of them may lead to the same port of the
      // sandbox.
      ports: ports.map(({ hostPort, servicePort }) => ({
        name: `udp-${hostPort}`,
        ...outerPort(hostPort, options.udp),
        targetPort: servicePort,
      })),
    },
  };
}

/** The policy that opens exactly these ports of a sandbox to every address. */
export function buildUdpPolicy(
  sandboxId: SandboxId,
  ports: readonly UdpMapping[],
  disk: OwnerDisk,
  options: UdpManifestOptions,
): V1NetworkPolicy {
  const inner = [...new Set(ports.map(({ servicePort }) => servicePort))];
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: {
      ...buildMetadata({ sandboxId }, options),
      name: udpPolicyName(sandboxId),
      ownerReferences: ownedBy(disk),
    },
    spec: {
      podSelector: { matchLabels: { [labels.sandbox]: disk.name } },
      policyTypes: ['Ingress'],
      ingress: [{ ports: inner.map((port) => ({ protocol: 'UDP', port })) }],
    },
  };
}

/** A Service without a selector. The driver uses it to find out whether the cluster accepts such a port. */
export function buildTrialService(port: number, options: UdpManifestOptions): V1Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: `udp-trial-${options.hostId}`.slice(0, 63).replace(/-+$/, ''),
      namespace: options.namespace,
      labels: ownerLabels(options),
      ...buildAnnotations(options.udp),
    },
    spec: { ...buildServiceKind(options.udp), ports: [outerPort(port, options.udp)] },
  };
}

/** The port mappings of a Service that the driver has made. */
export function toUdpMappings({ spec }: V1Service): UdpMapping[] {
  return (spec?.ports ?? []).map(({ port, targetPort }) => ({ hostPort: port, servicePort: Number(targetPort) }));
}

const buildAnnotations = ({ annotations = {} }: UdpOptions) =>
  Object.keys(annotations).length > 0 ? { annotations: { ...annotations } } : {};

const buildServiceKind = ({ service, trafficPolicy, loadBalancerClass }: UdpOptions) => ({
  type: service,
  externalTrafficPolicy: trafficPolicy,
  ...(service === 'LoadBalancer' && loadBalancerClass !== undefined && { loadBalancerClass }),
});

/** The cluster chooses the node ports of load balancers, because no client uses them. */
const outerPort = (port: number, { service }: UdpOptions) => ({
  protocol: 'UDP',
  port,
  ...(service === 'NodePort' && { nodePort: port }),
});
