import type { SandboxSpec } from '../../runtime/driver.ts';
import type { ImageFacts } from '../../runtime/kubernetes/image-facts.ts';
import type { ManifestOptions } from '../../runtime/kubernetes/manifests.ts';

/** The options of the driver from which tests make Kubernetes objects. */
export const options: ManifestOptions = {
  namespace: 'sandboxes',
  hostId: 'host-one',
  agentImage: 'registry/agent@sha256:1',
  resolveImage: (reference) => `registry/${reference}`,
  clientRanges: ['10.1.0.0/16'],
};

export const facts: ImageFacts = { folders: ['etc', 'root', 'usr'], user: '0:0', cwd: '/srv' };

/** A spec with texts in its secret fields that tests can search for: `x1`, `x2-access` and `x3-platform`. */
export const createSpec = (fields: Partial<SandboxSpec> = {}): SandboxSpec => ({
  sandboxId: 'sbx-one',
  run: 3,
  accountId: 'acc-one',
  image: 'python',
  cpuCount: 2,
  memoryMb: 1024,
  storageGb: 5,
  allowInternetAccess: false,
  env: { SECRET_OF_USER: 'x1' },
  accessToken: 'x2-access',
  platformToken: 'x3-platform',
  command: null,
  readyProbe: null,
  udpPorts: [],
  ...fields,
});
