import type { V1NetworkPolicy, V1ObjectMeta, V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node';
import type { ImageFacts } from './image-facts.ts';
import { buildClaim, buildImagePod, buildIngress, type ManifestOptions, ownerLabels } from './manifests.ts';
import { annotations, labels } from './names.ts';
import type { WarmShape } from './options.ts';

/** The hostname of every warm pod. The kernel's hostname stays the same when a sandbox takes the pod. */
const hostname = 'sandbox';

/** A warm pod of this shape. The pod and its disk have the same name. */
export function buildWarmPod(name: string, shape: WarmShape, facts: ImageFacts, options: ManifestOptions): V1Pod {
  const of = buildMetadata(name, options);
  const metadata = { ...of, annotations: { ...of.annotations, [annotations.run]: '0' } };
  return buildImagePod({ metadata, hostname, claimName: name }, shape, facts, options);
}

export function buildWarmDisk(
  name: string,
  shape: WarmShape,
  facts: ImageFacts,
  options: ManifestOptions,
): V1PersistentVolumeClaim {
  return buildClaim(buildMetadata(name, options), shape.storageGb, facts, options);
}

/**
 * Lets only the platform connect to warm pods, so that the platform reaches the agent before and after a sandbox takes
 * the pod. The policy of the sandbox adds the addresses that the sandbox may reach.
 */
export function buildWarmPolicy(options: ManifestOptions): V1NetworkPolicy {
  const { namespace, hostId } = options;
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: `warm-${hostId}`, namespace, labels: ownerLabels(options) },
    spec: {
      podSelector: {
        matchLabels: { [labels.host]: hostId },
        matchExpressions: [{ key: labels.warm, operator: 'Exists' }],
      },
      policyTypes: ['Ingress', 'Egress'],
      ingress: buildIngress(options),
      egress: [],
    },
  };
}

const buildMetadata = (name: string, options: ManifestOptions): V1ObjectMeta => ({
  name,
  namespace: options.namespace,
  labels: { ...ownerLabels(options), [labels.sandbox]: name, [labels.warm]: 'true' },
  annotations: { [annotations.warm]: 'free' },
});
