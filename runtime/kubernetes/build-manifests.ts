import type { V1Container, V1Pod, V1Volume } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import { initWords } from '../sandbox-agent/runtime-folder.ts';
import {
  buildPlatformContainer,
  commonSpec,
  diskVolume,
  type ManifestOptions,
  ownerLabels,
  platformVolume,
  platformVolumeMount,
} from './manifests.ts';
import { labels, sandboxContainer } from './names.ts';

/** The path of the sandbox's disk in a pod of a build. */
export const buildDisk = '/.platform-disk';
/** The folder in which a pod of a build may write. */
export const buildStage = '/.platform-stage';

/** The cluster ends a build's pod after this time, so it also ends if the process that made it is gone. */
const lifeSeconds = 2 * 3600;

interface BuildPod {
  name: string;
  buildId: string;
  /** The reference by which nodes pull the image. */
  image: string;
  /**
   * The sandbox whose disk the pod reads, the disk's name, and the node that has it. Null: the pod reads only the
   * image.
   */
  sandbox: { id: SandboxId; disk: string; node: string } | null;
  /** How much the pod may write to its node's disk. */
  stageBytes: number;
}

/** The label of all pods of a build. Ids of builds may contain characters that a label may not. */
export const buildLabel = (buildId: string) => buildId.replace(/[^A-Za-z0-9-]/g, '-');

/** A pod that packs the layer of an image. It runs no program of the image, and mounts the disk read-only. */
export function buildBuilderPod(
  { name, buildId, image, sandbox, stageBytes }: BuildPod,
  options: ManifestOptions,
): V1Pod {
  const storage = `${Math.ceil(stageBytes / 1024 ** 2)}Mi`;
  // The volume is not marked read-only here, because a storage driver may then try to attach the attached disk once
  // more.
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
      // The pod reads the files of all users.
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
      initContainers: [buildPlatformContainer(options)],
      containers: [container],
      volumes: [platformVolume, { name: 'stage', emptyDir: { sizeLimit: storage } }, ...disk],
    },
  };
}

/** Places a pod on one node. Only the pods of one node can use a `ReadWriteOnce` claim at the same time. */
const onNode = (node: string) => ({
  requiredDuringSchedulingIgnoredDuringExecution: {
    nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }],
  },
});
