import type { V1NetworkPolicy, V1ObjectMeta, V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node';
import type { SandboxSpec } from '../driver.ts';
import type { ImageFacts } from './image-facts.ts';
import { claimOf, imagePodOf, ingressOf, type ManifestOptions, ownerLabels } from './manifests.ts';
import { annotations, labels } from './names.ts';

/** What a pod and its disk are made from before there is a sandbox: they fit each sandbox with the same. */
export type WarmShape = Pick<SandboxSpec, 'image' | 'cpuCount' | 'memoryMb' | 'storageGb'>;

/** Of every pod that waits for a sandbox; the kernel keeps it. */
const hostname = 'sandbox';

/** The pod of a shape, without a sandbox. It has the name of its disk. */
export function warmPodOf(name: string, shape: WarmShape, facts: ImageFacts, options: ManifestOptions): V1Pod {
  const of = metadataOf(name, options);
  const metadata = { ...of, annotations: { ...of.annotations, [annotations.run]: '0' } };
  return imagePodOf({ metadata, hostname, claimName: name }, shape, facts, options);
}

export function warmDiskOf(
  name: string,
  shape: WarmShape,
  facts: ImageFacts,
  options: ManifestOptions,
): V1PersistentVolumeClaim {
  return claimOf(metadataOf(name, options), shape.storageGb, facts, options);
}

/**
 * Opens all pods that were made before their sandbox to the platform, and to nothing else: an agent then answers as soon
 * as it has its sandbox. What the sandbox may reach, its own policy adds.
 */
export function warmPolicyOf(options: ManifestOptions): V1NetworkPolicy {
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
      ingress: ingressOf(options),
      egress: [],
    },
  };
}

const metadataOf = (name: string, options: ManifestOptions): V1ObjectMeta => ({
  name,
  namespace: options.namespace,
  labels: { ...ownerLabels(options), [labels.sandbox]: name, [labels.warm]: 'true' },
  annotations: { [annotations.warm]: 'free' },
});
