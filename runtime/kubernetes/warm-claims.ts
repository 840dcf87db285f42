import { ApiException, CoreV1Api, type KubeConfig, PatchStrategy, setHeaderOptions } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import { asked } from './cluster.ts';
import { annotations, readSandboxId } from './names.ts';
import { type UseBefore, writeUseBefore } from './use-before.ts';

const patchOptions = setHeaderOptions('Content-Type', PatchStrategy.JsonPatch);

/** The name and the uid of a pod or a disk. */
interface Named {
  name: string;
  uid: string;
}

/**
 * Assigns warm pods and their disks to sandboxes. The API server tests and changes an annotation in one step, so when
 * two processes claim the same pod, only one of them gets it.
 */
export class WarmClaims {
  readonly #core: CoreV1Api;
  readonly #namespace: string;

  constructor(config: KubeConfig, namespace: string) {
    this.#core = config.makeApiClient(CoreV1Api);
    this.#namespace = namespace;
  }

  /**
   * @param before the resources that the pod has used until now; null: they were not measured
   * @returns false when the pod is gone, or belongs to another sandbox
   */
  takePod(
    pod: Named,
    sandboxId: SandboxId,
    { run, before }: { run: number; before: UseBefore | null },
    signal: AbortSignal,
  ): Promise<boolean> {
    const of = { name: pod.name, namespace: this.#namespace };
    const body = [
      ...takes(pod, sandboxId),
      { op: 'add', path: annotationPath(annotations.run), value: `${run}` },
      ...(before ? [{ op: 'add', path: annotationPath(annotations.useBefore), value: writeUseBefore(before) }] : []),
    ];
    return this.#take(
      () => this.#core.patchNamespacedPod({ ...of, body }, patchOptions),
      () => this.#core.readNamespacedPod(of),
      { ...pod, sandboxId, signal },
    );
  }

  /** @returns false when the disk is gone, or belongs to another sandbox */
  takeDisk(disk: Named, sandboxId: SandboxId, signal: AbortSignal): Promise<boolean> {
    const of = { name: disk.name, namespace: this.#namespace };
    return this.#take(
      () => this.#core.patchNamespacedPersistentVolumeClaim({ ...of, body: takes(disk, sandboxId) }, patchOptions),
      () => this.#core.readNamespacedPersistentVolumeClaim(of),
      { ...disk, sandboxId, signal },
    );
  }

  async #take(
    patch: () => Promise<unknown>,
    read: () => Promise<Parameters<typeof readSandboxId>[0]>,
    { uid, sandboxId, signal }: Named & { sandboxId: SandboxId; signal: AbortSignal },
  ): Promise<boolean> {
    try {
      await asked(patch, signal);
      return true;
    } catch (error) {
      if (!isRefused(error)) throw error;
    }
    // An earlier attempt may have succeeded, and its answer may have been lost.
    try {
      const now = await asked(read, signal);
      return now.metadata?.uid === uid && readSandboxId(now) === sandboxId;
    } catch (error) {
      if (isRefused(error)) return false;
      throw error;
    }
  }
}

const annotationPath = (annotation: string) => `/metadata/annotations/${annotation.replaceAll('/', '~1')}`;

const takes = ({ uid }: Named, sandboxId: SandboxId) => [
  { op: 'test', path: '/metadata/uid', value: uid },
  { op: 'test', path: annotationPath(annotations.warm), value: 'free' },
  { op: 'replace', path: annotationPath(annotations.warm), value: 'taken' },
  { op: 'add', path: annotationPath(annotations.sandbox), value: sandboxId },
];

/** Whether a test of the patch has failed (422), or the object does not exist. */
const isRefused = (error: unknown) => error instanceof ApiException && (error.code === 422 || error.code === 404);
