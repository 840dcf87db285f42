import type { V1NetworkPolicy, V1NetworkPolicyEgressRule, V1Pod, V1Secret } from '@kubernetes/client-node';
import type { MountCredentials } from '../../../domain/object-storage.ts';
import { closedIpv4Ranges } from '../../../domain/outbound-addresses.ts';
import { credentialsFile, s3fsOptions } from '../../mounts/s3fs-options.ts';
import { commonSpec, diskVolume, type ManifestOptions, type OwnerDisk, ownedBy, ownerLabels } from '../manifests.ts';
import type { StorageRoute } from './endpoint-guard.ts';
import { type MountPlace, mountAnnotations, mountContainer, mountLabels } from './names.ts';

/** What one s3fs may use beside the sandbox. */
const memory = '256Mi';
/** How long s3fs has for what is being written when the sandbox ends. */
const endSeconds = 5;
/** s3fs of a forbidden endpoint gets this address, at which no server listens. */
const nowhere = 'http://127.0.0.1:9';

/** One mount of a sandbox. */
export interface Mount {
  /** Of its Secret and its policy, and the label of its pod. */
  name: string;
  sandboxId: string;
  disk: OwnerDisk;
}

export type MountManifestOptions = ManifestOptions & { s3fsImage: string };

/** The credentials of one mount, which its mount pod alone reads. It goes with the disk of the sandbox, at the latest. */
export function mountSecretOf(mount: Mount, credentials: MountCredentials, options: MountManifestOptions): V1Secret {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: metadataOf(mount, options),
    type: 'Opaque',
    immutable: true,
    stringData: { credentials: credentialsFile(credentials) },
  };
}

/** A mount pod reaches the endpoint and, to look its name up, the resolvers; nothing reaches it. */
export function mountPolicyOf(mount: Mount, route: StorageRoute, options: MountManifestOptions): V1NetworkPolicy {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: metadataOf(mount, options),
    spec: {
      podSelector: { matchLabels: { [mountLabels.mount]: mount.name } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [],
      egress: egressOf(route, options),
    },
  };
}

function egressOf(
  { target, addresses, isPinned }: StorageRoute,
  { closedRanges = [], dns = [] }: MountManifestOptions,
): V1NetworkPolicyEgressRule[] {
  const ports = [{ protocol: 'TCP', port: target.port }];
  const known = addresses.map((address) => ({ ipBlock: { cidr: `${address}/32` } }));
  // A rule without peers would be open to all.
  if (known.length === 0) return [];
  if (isPinned) return [{ to: known, ports }];
  const lookUp = ['UDP', 'TCP'].map((protocol) => ({ protocol, port: 53 }));
  return [
    // A name of the public internet leads to other addresses tomorrow.
    { to: [{ ipBlock: { cidr: '0.0.0.0/0', except: [...closedIpv4Ranges, ...closedRanges] } }], ports },
    { to: dns.map((address) => ({ ipBlock: { cidr: `${address}/32` } })), ports: lookUp },
  ];
}

/**
 * The pod of one s3fs, beside the sandbox's on the same node. It has no privilege, no network but the way to the endpoint, and
 * no mount of its own: the mount helper hands it the descriptor by which it serves one.
 * @param of.name another one for each pod that serves the mount
 * @param of.node of the sandbox's pod
 */
export function mountPodOf(
  mount: Mount,
  route: StorageRoute,
  of: { name: string; node: string; place: MountPlace; cpuCount: number },
  options: MountManifestOptions,
): V1Pod {
  const { target, addresses, isPinned } = route;
  const reached = addresses.length > 0 ? target : { ...target, url: nowhere, pathStyle: true };
  const { dns = [] } = options;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...metadataOf(mount, options),
      name: of.name,
      // With the sandbox's pod it goes, however that one ends.
      ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: of.place.pod, uid: of.place.uid }],
      annotations: { [mountAnnotations.into]: JSON.stringify(of.place) },
    },
    spec: {
      ...commonSpec(options),
      nodeName: of.node,
      terminationGracePeriodSeconds: endSeconds,
      dnsPolicy: 'None',
      // One that answers nothing: the name is in the pod's hosts file.
      dnsConfig: { nameservers: isPinned ? ['127.0.0.1'] : [...dns] },
      ...(isPinned && { hostAliases: addresses.map((ip) => ({ ip, hostnames: [target.host] })) }),
      containers: [
        {
          name: mountContainer,
          image: options.s3fsImage,
          command: [
            ...['/usr/bin/perl', '/usr/bin/serve-mount', `${reached.bucket}:${reached.path}`, '/bucket', '-f'],
            ...['auto_unmount', 'tmpdir=/buffers', 'dbglevel=err', ...s3fsOptions(reached)].flatMap((option) => [
              '-o',
              option,
            ]),
          ],
          // s3fs gives its files to root only as root. It has none of root's rights.
          securityContext: {
            runAsUser: 0,
            runAsGroup: 0,
            privileged: false,
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
            seccompProfile: { type: 'RuntimeDefault' },
          },
          resources: {
            limits: { cpu: `${of.cpuCount}`, memory, 'ephemeral-storage': '16Mi' },
            requests: { cpu: '10m', memory: '32Mi', 'ephemeral-storage': '1Mi' },
          },
          volumeMounts: [
            { name: 'credentials', mountPath: '/root/.aws', readOnly: true },
            { name: 'scratch', mountPath: '/run/platform', subPath: 'run' },
            { name: 'scratch', mountPath: '/tmp', subPath: 'tmp' },
            // What is written waits on the sandbox's own disk until it is sent, and counts there.
            { name: diskVolume, mountPath: '/buffers', subPath: 'storage' },
          ],
        },
      ],
      volumes: [
        { name: 'credentials', secret: { secretName: mount.name, defaultMode: 0o400 } },
        { name: 'scratch', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } },
        { name: diskVolume, persistentVolumeClaim: { claimName: mount.disk.name } },
      ],
    },
  };
}

const metadataOf = ({ name, sandboxId, disk }: Mount, options: MountManifestOptions) => ({
  name,
  namespace: options.namespace,
  labels: { ...ownerLabels(options), [mountLabels.mount]: name, [mountLabels.mountOf]: sandboxId },
  ownerReferences: ownedBy(disk),
});
