import type { V1Container, V1Pod, V1Volume } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import { initWords } from '../sandbox-agent/runtime-folder.ts';
import {
  commonSpec,
  diskVolume,
  type ManifestOptions,
  ownerLabels,
  platformOf,
  platformVolume,
  platformVolumeMount,
} from './manifests.ts';
import { labels, sandboxContainer } from './names.ts';

/** Where the disk of the sandbox is in a pod of a build. */
export const buildDisk = '/.platform-disk';
/** Where a pod of a build may write. */
export const buildStage = '/.platform-stage';

/** A build's pod ends after this time, also when the process that made it is gone. */
const lifeSeconds = 2 * 3600;

interface BuildPod {
  name: string;
  buildId: string;
  /** As nodes pull it. */
  image: string;
  /** The sandbox whose disk it reads, the disk's name, and the node that has it. Null: it reads the image alone. */
  sandbox: { id: SandboxId; disk: string; node: string } | null;
  /** What it may write to its node's disk. */
  stageBytes: number;
}

/** The label that all pods of a build have. Ids of builds are in other letters than labels may have. */
export const buildLabel = (buildId: string) => buildId.replace(/[^A-Za-z0-9-]/g, '-');

/** A pod that packs what an image needs. It runs nothing of the image, and reads the disk alone. */
export function buildPodOf({ name, buildId, image, sandbox, stageBytes }: BuildPod, options: ManifestOptions): V1Pod {
  const storage = `${Math.ceil(stageBytes / 1024 ** 2)}Mi`;
  // Not read-only here: a driver of storage may take that for another way to attach what is attached already.
  const disk: V1Volume[] = sandbox ? [{ name: diskVolume, persistentVolumeClaim: { claimName: sandbox.disk } }] : [];
  const container: V1Container = {
    name: sandboxContainer,
    image,
    command: initWords,
    workingDir: '/',
    securityContext: {
      runAsUser: 0,
      runAsGroup: 0,
      privileged: false,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      // It reads the files of all users.
      capabilities: { drop: ['ALL'], add: ['DAC_OVERRIDE'] },
      seccompProfile: { type: 'RuntimeDefault' },
    },
    resources: {
      limits: { cpu: '2', memory: '1Gi', 'ephemeral-storage': storage },
      requests: { cpu: '50m', memory: '128Mi', 'ephemeral-storage': '64Mi' },
    },
    volumeMounts: [
      platformVolumeMount,
      { name: 'stage', mountPath: buildStage },
      ...(sandbox ? [{ name: diskVolume, mountPath: buildDisk, readOnly: true }] : []),
    ],
  };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: options.namespace,
      labels: {
        ...ownerLabels(options),
        [labels.build]: buildLabel(buildId),
        ...(sandbox && { [labels.buildOf]: sandbox.id }),
      },
    },
    spec: {
      ...commonSpec(options),
      activeDeadlineSeconds: lifeSeconds,
      ...(sandbox && { affinity: { nodeAffinity: onNode(sandbox.node) } }),
      initContainers: [platformOf(options)],
      containers: [container],
      volumes: [platformVolume, { name: 'stage', emptyDir: { sizeLimit: storage } }, ...disk],
    },
  };
}

/** A claim that one node may use at a time is used by several pods of that node. */
const onNode = (node: string) => ({
  requiredDuringSchedulingIgnoredDuringExecution: {
    nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }],
  },
});
