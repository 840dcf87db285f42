import type { V1NetworkPolicy, V1NetworkPolicyEgressRule, V1Pod, V1Secret } from '@kubernetes/client-node';
import { closedIpv4Ranges } from '../../../domain/outbound-addresses.ts';
import type { MountCredentials } from '../../../domain/sandboxes/object-storage.ts';
import { credentialsFile, s3fsOptions } from '../../mounts/s3fs-options.ts';
import { commonSpec, diskVolume, type ManifestOptions, type OwnerDisk, ownedBy, ownerLabels } from '../manifests.ts';
import type { StorageRoute } from './endpoint-guard.ts';
import { type MountPlace, mountAnnotations, mountContainer, mountLabels } from './names.ts';

/** The memory limit of one s3fs. It is not part of the sandbox's own memory. */
const memory = '256Mi';
/** How long s3fs may still upload when the sandbox ends. */
const endSeconds = 5;
/** The address that s3fs gets instead of a forbidden endpoint. No server listens there. */
const nowhere = 'http://127.0.0.1:9';

/** One mount of a sandbox. */
export interface Mount {
  /** The name of the mount's Secret and policy, and the value of its pod's label. */
  name: string;
  sandboxId: string;
  disk: OwnerDisk;
}

export type MountManifestOptions = ManifestOptions & { s3fsImage: string };

/**
 * The Secret with the credentials of one mount. The cluster deletes it together with the sandbox's disk at the latest.
 */
export function buildMountSecret(mount: Mount, credentials: MountCredentials, options: MountManifestOptions): V1Secret {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: buildMetadata(mount, options),
    type: 'Opaque',
    immutable: true,
    stringData: { credentials: credentialsFile(credentials) },
  };
}

/**
 * The policy of a mount pod. The pod can reach the endpoint and the DNS servers. No other machine can connect to it.
 */
export function buildMountPolicy(mount: Mount, route: StorageRoute, options: MountManifestOptions): V1NetworkPolicy {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: buildMetadata(mount, options),
    spec: {
      podSelector: { matchLabels: { [mountLabels.mount]: mount.name } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [],
      egress: buildEgress(route, options),
    },
  };
}

function buildEgress(
  { target, addresses, isPinned }: StorageRoute,
  { closedRanges = [], dns = [] }: MountManifestOptions,
): V1NetworkPolicyEgressRule[] {
  const ports = [{ protocol: 'TCP', port: target.port }];
  const known = addresses.map((address) => ({ ipBlock: { cidr: `${address}/32` } }));
  // A rule without peers would allow all addresses.
  if (known.length === 0) return [];
  if (isPinned) return [{ to: known, ports }];
  const lookUp = ['UDP', 'TCP'].map((protocol) => ({ protocol, port: 53 }));
  return [
    // The addresses of a public name change, so all public addresses are allowed.
    { to: [{ ipBlock: { cidr: '0.0.0.0/0', except: [...closedIpv4Ranges, ...closedRanges] } }], ports },
    { to: dns.map((address) => ({ ipBlock: { cidr: `${address}/32` } })), ports: lookUp },
  ];
}

/**
 * The pod of one s3fs, on the node of the sandbox. It has no privileges, can only reach the endpoint, and makes no
 * mount itself: the mount helper sends it the descriptor with which it serves the mount.
 * @param of.name the pod's name, which is new for each pod that serves the mount
 * @param of.node the node of the sandbox's pod
 */
export function buildMountPod(
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
      ...buildMetadata(mount, options),
      name: of.name,
      // The cluster deletes the mount pod together with the sandbox's pod.
      ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: of.place.pod, uid: of.place.uid }],
      annotations: { [mountAnnotations.into]: JSON.stringify(of.place) },
    },
    spec: {
      ...commonSpec(options),
      nodeName: of.node,
      terminationGracePeriodSeconds: endSeconds,
      dnsPolicy: 'None',
      // A pinned name is in the pod's hosts file, so the pod needs no DNS. No server answers at this address.
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
          // s3fs can give files to root only if it runs as root. It has no capabilities of root.
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
            // s3fs buffers writes on the sandbox's own disk until they are uploaded, so they count as use of that disk.
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

const buildMetadata = ({ name, sandboxId, disk }: Mount, options: MountManifestOptions) => ({
  name,
  namespace: options.namespace,
  labels: { ...ownerLabels(options), [mountLabels.mount]: name, [mountLabels.mountOf]: sandboxId },
  ownerReferences: ownedBy(disk),
});
