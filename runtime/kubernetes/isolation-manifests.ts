import type { V1NetworkPolicy, V1Pod } from '@kubernetes/client-node';
import { commonSpec, type ManifestOptions, nodeWords } from './manifests.ts';
import { fieldManager, labels, sandboxContainer } from './names.ts';

/** The cluster ends a probe's pod after this time, so it also ends if the process that made it is gone. */
const lifeSeconds = 300;

/** Selects the objects of one probe, or of all probes of a host. */
export const selectorOfProbes = (of: { id: string } | { hostId: string }) =>
  'id' in of ? `${labels.probe}=${of.id}` : `${labels.probe},${labels.host}=${of.hostId}`;

/** Closes some pods of a probe in both directions: those with the label `closed`. */
export function buildProbePolicy(id: string, { namespace, hostId }: ManifestOptions): V1NetworkPolicy {
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
 * A pod of a probe. It has no host label, so drivers do not watch or remove it.
 * @param of.words a script of `in-pod/` and its arguments
 * @param of.policy the owner of the pod; the cluster deletes the pod together with the policy
 */
export function buildProbePod(
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
