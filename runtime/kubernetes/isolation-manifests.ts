import type { V1NetworkPolicy, V1Pod } from '@kubernetes/client-node';
import { commonSpec, type ManifestOptions, nodeWords } from './manifests.ts';
import { fieldManager, labels, sandboxContainer } from './names.ts';

/** A pod of a probe ends after this time, also when the process that made it is gone. */
const lifeSeconds = 300;

/** The objects of one probe, or those of all probes of a host. */
export const selectorOfProbes = (of: { id: string } | { hostId: string }) =>
  'id' in of ? `${labels.probe}=${of.id}` : `${labels.probe},${labels.host}=${of.hostId}`;

/** Closes the pods of one probe that are to be closed, in both directions. */
export function probePolicyOf(id: string, { namespace, hostId }: ManifestOptions): V1NetworkPolicy {
  const { managedBy, host, probe, closed } = labels;
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: `probe-${id}`, namespace, labels: { [managedBy]: fieldManager, [host]: hostId, [probe]: id } },
    spec: {
      podSelector: { matchLabels: { [probe]: id, [closed]: 'true' } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [],
      egress: [],
    },
  };
}

/**
 * A pod of a probe. It has no label of a host: it is none of those that a driver watches and reconciles.
 * @param words a script of `in-pod/` and its arguments
 * @param policy its owner: it goes with it
 */
export function probePodOf(
  of: { id: string; role: string; words: string[]; isClosed: boolean; policy: V1NetworkPolicy },
  options: ManifestOptions,
): V1Pod {
  const { name, uid } = of.policy.metadata!;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `probe-${of.id}-${of.role}`,
      namespace: options.namespace,
      labels: {
        [labels.managedBy]: fieldManager,
        [labels.probe]: of.id,
        ...(of.isClosed && { [labels.closed]: 'true' }),
      },
      ownerReferences: [{ apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', name: name!, uid: uid! }],
    },
    spec: {
      ...commonSpec(options),
      activeDeadlineSeconds: lifeSeconds,
      containers: [
        {
          name: sandboxContainer,
          image: options.agentImage,
          command: nodeWords(of.words),
          resources: { limits: { cpu: '1', memory: '128Mi' }, requests: { cpu: '10m', memory: '32Mi' } },
          securityContext: {
            runAsUser: 65_534,
            runAsGroup: 65_534,
            runAsNonRoot: true,
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
            seccompProfile: { type: 'RuntimeDefault' },
          },
        },
      ],
    },
  };
}
