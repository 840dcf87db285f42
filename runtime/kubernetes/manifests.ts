import type {
  V1Container,
  V1NetworkPolicy,
  V1NetworkPolicyEgressRule,
  V1NetworkPolicyIngressRule,
  V1ObjectMeta,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodSpec,
  V1SecurityContext,
} from '@kubernetes/client-node';
import { closedIpv4Ranges } from '../../domain/outbound-addresses.ts';
import type { SandboxSpec } from '../driver.ts';
import { agentPort } from '../sandbox-agent/agent-client.ts';
import { initWords, runtimeMount } from '../sandbox-agent/runtime-folder.ts';
import type { ImageFacts } from './image-facts.ts';
import { annotations, fieldManager, labels, sandboxContainer } from './names.ts';
import type { KubernetesDriverOptions } from './options.ts';

/** The init container that copies the image to the disk. */
export const diskContainer = 'disk';
/** The volume of a sandbox's disk. */
export const diskVolume = 'disk';
const platformContainer = 'platform';
const diskMount = '/.platform-disk';
const node = `${runtimeMount}/bin/node`;
/** Scripts of `in-pod/` in every sandbox. */
const scripts = `${runtimeMount}/kubernetes`;
/** The agent writes the last output of the template's command to this file, and the kubelet reads it at the end. */
const tailFile = '/run/platform/command.tail';
/** How much a pod may write outside of its disk, including its logs. */
const ephemeralMb = 512;

/** The capabilities of root in a sandbox. They affect only the sandbox's own files and processes. */
const capabilities = [
  ...['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'NET_BIND_SERVICE', 'SETFCAP', 'SETGID'],
  ...['SETPCAP', 'SETUID', 'SYS_CHROOT'],
];

/** The command that runs a script of `in-pod/`. */
export const nodeWords = ([script, ...args]: readonly string[]) => [node, `${scripts}/${script}`, ...args];

/** The command that starts the agent in a sandbox. It reads the boot document from standard input. */
export const startAgentWords = (documentBytes: number) => [node, `${scripts}/start-agent.cjs`, `${documentBytes}`];

/** The parts of the options that objects are made from. */
export type ManifestOptions = Pick<
  KubernetesDriverOptions,
  | 'agentImage'
  | 'clientNamespaces'
  | 'clientRanges'
  | 'closedRanges'
  | 'dns'
  | 'hostId'
  | 'resolveImage'
  | 'namespace'
  | 'openServers'
  | 'ownUsers'
  | 'pullSecret'
  | 'requestShare'
  | 'runtimeClass'
  | 'storageClass'
>;

/** The disk of a sandbox. The cluster deletes the objects that it owns together with the disk. */
export interface OwnerDisk {
  name: string;
  uid: string;
}

export const ownedBy = (disk: OwnerDisk) => [{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...disk }];

/**
 * The disk of a sandbox, which outlives its pods.
 * @param name the disk's name, which is not the sandbox's id if the disk was made for a warm pod
 */
export function buildDisk(
  spec: SandboxSpec,
  facts: ImageFacts,
  options: ManifestOptions,
  name: string = spec.sandboxId,
): V1PersistentVolumeClaim {
  return buildClaim({ ...onDisk(spec, name, options), name }, spec.storageGb, facts, options);
}

/** A disk that will contain the folders of an image. */
export function buildClaim(
  metadata: V1ObjectMeta,
  storageGb: number,
  facts: ImageFacts,
  options: ManifestOptions,
): V1PersistentVolumeClaim {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { ...metadata, annotations: { ...metadata.annotations, [annotations.image]: JSON.stringify(facts) } },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: `${storageGb}Gi` } },
      ...(options.storageClass !== undefined && { storageClassName: options.storageClass }),
    },
  };
}

/**
 * The pod for one start or resume of a sandbox.
 * @param claimName the disk's name, which is not the sandbox's id if the disk was made for a warm pod
 */
export function buildPod(
  spec: SandboxSpec,
  facts: ImageFacts,
  options: ManifestOptions,
  claimName: string = spec.sandboxId,
): V1Pod {
  const of = onDisk(spec, claimName, options);
  const metadata = { ...of, annotations: { ...of.annotations, [annotations.run]: `${spec.run ?? 0}` } };
  return buildImagePod({ metadata, hostname: spec.sandboxId, claimName }, spec, facts, options);
}

/** The fields of a sandbox's spec from which its pod is made. */
export type PodShape = Pick<SandboxSpec, 'image' | 'cpuCount' | 'memoryMb'>;

/**
 * A pod whose container mounts an image's folders from a disk. Its first process only waits: the agent is started
 * later.
 */
export function buildImagePod(
  { metadata, hostname, claimName }: { metadata: V1ObjectMeta; hostname: string; claimName: string },
  shape: PodShape,
  facts: ImageFacts,
  options: ManifestOptions,
): V1Pod {
  const image = options.resolveImage(shape.image);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: {
      ...commonSpec(options),
      hostname,
      initContainers: [
        buildPlatformContainer(options, requestedMillicores(shape, options)),
        {
          name: diskContainer,
          image,
          command: [node, `${scripts}/prepare-disk.cjs`, diskMount, ...facts.folders],
          securityContext: rootContext,
          resources: computeResources(shape, options),
          volumeMounts: [platformVolumeMount, { name: diskVolume, mountPath: diskMount }],
        },
      ],
      containers: [
        {
          name: sandboxContainer,
          image,
          command: initWords,
          workingDir: '/',
          env: [
            { name: 'AGENT_PORT', value: `${agentPort}` },
            { name: 'AGENT_COMMAND_TAIL', value: tailFile },
          ],
          ports: [{ name: 'agent', containerPort: agentPort }],
          resources: computeResources(shape, options),
          securityContext: rootContext,
          terminationMessagePath: tailFile,
          volumeMounts: [
            platformVolumeMount,
            ...facts.folders.map((folder) => ({
              name: diskVolume,
              mountPath: `/${folder}`,
              subPath: `rootfs/${folder}`,
            })),
          ],
        },
      ],
      volumes: [platformVolume, { name: diskVolume, persistentVolumeClaim: { claimName } }],
    },
  };
}

/** A pod that writes the facts about an image to its termination message. */
export function inspectionPod(name: string, image: string, options: ManifestOptions): V1Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: options.namespace, labels: ownerLabels(options) },
    spec: {
      ...commonSpec(options),
      initContainers: [buildPlatformContainer(options)],
      containers: [
        {
          name: sandboxContainer,
          image,
          command: [node, `${scripts}/describe-image.cjs`],
          securityContext: { ...rootContext, runAsUser: undefined, runAsGroup: undefined },
          resources: { limits: { cpu: '1', memory: '128Mi' }, requests: { cpu: '10m', memory: '64Mi' } },
          volumeMounts: [platformVolumeMount],
        },
      ],
      volumes: [platformVolume],
    },
  };
}

/**
 * The network policy of a sandbox. Only the platform can open connections to the sandbox. The sandbox can reach the
 * public internet or nothing, and never the API server, nodes, metadata services, other sandboxes or the platform.
 * @param disk the owner of the policy; the cluster deletes the policy together with the disk
 */
export function buildPolicy(
  spec: Pick<SandboxSpec, 'sandboxId' | 'allowInternetAccess'>,
  disk: OwnerDisk,
  options: ManifestOptions,
): V1NetworkPolicy {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: {
      ...buildMetadata(spec, options),
      ownerReferences: ownedBy(disk),
    },
    spec: {
      podSelector: { matchLabels: { [labels.sandbox]: disk.name } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: buildIngress(options),
      egress: spec.allowInternetAccess ? internet(options) : [],
    },
  };
}

/**
 * Closes all pods of a host in both directions. Pods that inspect an image or work for a build have no other policy.
 * The policies of sandboxes and mounts open what they need, because the rules of all policies of a pod are combined.
 */
export function buildClosedPolicy(options: Pick<ManifestOptions, 'hostId' | 'namespace'>): V1NetworkPolicy {
  const { namespace, hostId } = options;
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: `closed-${hostId}`, namespace, labels: ownerLabels(options) },
    spec: {
      podSelector: { matchLabels: ownerLabels(options) },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [],
      egress: [],
    },
  };
}

/** The ingress rules that let only the platform connect to pods. */
export function buildIngress({ clientRanges, clientNamespaces = [] }: ManifestOptions): V1NetworkPolicyIngressRule[] {
  const peers = [
    ...clientRanges.map((cidr) => ({ ipBlock: { cidr } })),
    // Some network plugins, such as Cilium, do not match the addresses of pods with an `ipBlock`.
    ...clientNamespaces.map((name) => ({
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
    })),
  ];
  // A rule without peers would allow all peers. The client sends an object unchanged, but its type has another name for
  // `from`, hence the cast.
  return peers.length === 0 ? [] : [{ from: peers } as V1NetworkPolicyIngressRule];
}

function internet({ closedRanges = [], dns = [], openServers = [] }: ManifestOptions): V1NetworkPolicyEgressRule[] {
  const except = [...closedIpv4Ranges, ...closedRanges];
  const resolvers = dns.map((address) => ({ ipBlock: { cidr: `${address}/32` } }));
  const ports = [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ];
  return [
    { to: [{ ipBlock: { cidr: '0.0.0.0/0', except } }] },
    ...(resolvers.length > 0 ? [{ to: resolvers, ports }] : []),
    ...openServers.map(({ address, port }) => ({
      to: [{ ipBlock: { cidr: `${address}/32` } }],
      ports: [
        { protocol: 'TCP', port },
        { protocol: 'UDP', port },
      ],
    })),
  ];
}

export const platformVolume = { name: 'platform', emptyDir: {} };
export const platformVolumeMount = { name: 'platform', mountPath: runtimeMount, readOnly: true };

const rootContext: V1SecurityContext = {
  runAsUser: 0,
  runAsGroup: 0,
  privileged: false,
  capabilities: { drop: ['ALL'], add: capabilities },
  seccompProfile: { type: 'RuntimeDefault' },
};

/**
 * The init container that copies the agent into the pod, with its own dynamic loader and C library, so that the agent
 * runs in any image.
 * @param millicores its request. The request of a pod is that of its largest init container or of its containers, so a
 *   request up to the sandbox's own adds nothing.
 */
export const buildPlatformContainer = ({ agentImage }: ManifestOptions, millicores = 10): V1Container => ({
  name: platformContainer,
  image: agentImage,
  command: [`${runtimeMount}/bin/cp`, '-a', `${runtimeMount}/.`, '/target/'],
  securityContext: {
    ...rootContext,
    capabilities: { drop: ['ALL'], add: ['CHOWN', 'DAC_OVERRIDE', 'FOWNER'] },
    allowPrivilegeEscalation: false,
  },
  resources: {
    limits: { cpu: '1', memory: '128Mi' },
    requests: { cpu: `${Math.min(1000, millicores)}m`, memory: '32Mi' },
  },
  volumeMounts: [{ name: 'platform', mountPath: '/target' }],
});

/** The spec of all pods: no token of a service account, no access to the node, and no restart. */
export function commonSpec({
  dns,
  ownUsers,
  pullSecret,
  runtimeClass,
}: ManifestOptions): Omit<V1PodSpec, 'containers'> {
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: 1,
    // A sandbox on an unreachable node is paused after about a minute. By default the cluster waits five minutes.
    tolerations: ['not-ready', 'unreachable'].map((state) => ({
      key: `node.kubernetes.io/${state}`,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: 20,
    })),
    ...(pullSecret !== undefined && { imagePullSecrets: [{ name: pullSecret }] }),
    ...(runtimeClass !== undefined && { runtimeClassName: runtimeClass }),
    ...(ownUsers && { hostUsers: false }),
    ...(dns !== undefined && { dnsPolicy: 'None', dnsConfig: { nameservers: [...dns] } }),
  };
}

/** The request of a pod, as a share of its limit. */
export const toRequestShare = ({ requestShare }: Pick<ManifestOptions, 'requestShare'>) =>
  requestShare ?? { cpu: 1 / 16, memory: 1 / 4 };

function requestedMillicores({ cpuCount }: PodShape, options: ManifestOptions): number {
  return Math.max(1, Math.round(cpuCount * 1000 * toRequestShare(options).cpu));
}

function computeResources(spec: PodShape, options: ManifestOptions): V1Container['resources'] {
  const { memory } = toRequestShare(options);
  return {
    limits: { cpu: `${spec.cpuCount}`, memory: `${spec.memoryMb}Mi`, 'ephemeral-storage': `${ephemeralMb}Mi` },
    requests: {
      cpu: `${requestedMillicores(spec, options)}m`,
      memory: `${Math.ceil(spec.memoryMb * memory)}Mi`,
      'ephemeral-storage': '64Mi',
    },
  };
}

export const ownerLabels = ({ hostId }: Pick<ManifestOptions, 'hostId'>) => ({
  [labels.managedBy]: fieldManager,
  [labels.host]: hostId,
});

export const buildMetadata = (
  { sandboxId }: Pick<SandboxSpec, 'sandboxId'>,
  options: Pick<ManifestOptions, 'hostId' | 'namespace'>,
) => ({
  name: sandboxId,
  namespace: options.namespace,
  labels: { ...ownerLabels(options), [labels.sandbox]: sandboxId },
});

/** The metadata of a sandbox's pod or disk. @param diskName the name of the sandbox's disk */
function onDisk({ sandboxId }: Pick<SandboxSpec, 'sandboxId'>, diskName: string, options: ManifestOptions) {
  const { labels: own, ...rest } = buildMetadata({ sandboxId }, options);
  const isOther = diskName !== sandboxId;
  return {
    ...rest,
    labels: { ...own, [labels.sandbox]: diskName },
    ...(isOther && { annotations: { [annotations.sandbox]: sandboxId as string } }),
  };
}
