import { type CoreV1Api, makeInformer, type V1PersistentVolumeClaim } from '@kubernetes/client-node';
import { parseBytes } from '../../../runtime/kubernetes/quantities.ts';
import type { ClusterNode } from './cluster-node.ts';
import type { KubernetesCluster } from './kubernetes-cluster.ts';

/** `sh <folder> <size>`: a file system of this size, at this folder. */
const volumeScript = `set -e
mkdir -p "$1"
truncate --size "$2" "$1.img"
mkfs.ext4 -q -m 0 "$1.img"
mount -o loop,discard,noinit_itable "$1.img" "$1"
rmdir "$1/lost+found"`;

/** `sh <folder>`: removes it. The kubelet may still be about to release a mount of it. */
const removeScript = 'umount --lazy "$1" && rm "$1.img"';

const formatName = (claimUid: string) => `volume-${claimUid}`;

/** Makes a volume of the requested size on the node for each claim of a namespace, as the provisioner of a storage class does. */
export class VolumeMaker {
  readonly #core: CoreV1Api;
  readonly #node: ClusterNode;
  /** On a disk: the memory of a tmpfs would count towards the limit of the pod that writes to it. */
  readonly #folder: string;
  readonly #storageClassName: string;
  readonly #stop: () => Promise<void>;
  readonly #made = new Set<string>();
  readonly #work = new Set<Promise<void>>();
  /** What it could not make. */
  readonly failures: unknown[] = [];

  private constructor(cluster: KubernetesCluster, namespace: string, storageClassName: string) {
    this.#core = cluster.core;
    this.#node = cluster.node;
    this.#folder = cluster.place.file('volumes');
    this.#storageClassName = storageClassName;
    const claims = makeInformer(cluster.config, `/api/v1/namespaces/${namespace}/persistentvolumeclaims`, () =>
      this.#core.listNamespacedPersistentVolumeClaim({ namespace }),
    );
    claims.on('add', (claim) => this.#begin(claim));
    claims.on('delete', (claim) => this.#keep(this.#remove(claim)));
    claims.on('error', () => void claims.start().catch((error) => this.failures.push(error)));
    this.#stop = () => claims.stop();
    this.#keep(claims.start());
  }

  static start(cluster: KubernetesCluster, namespace: string, storageClassName: string): VolumeMaker {
    return new VolumeMaker(cluster, namespace, storageClassName);
  }

  async stop(): Promise<void> {
    await this.#stop();
    await Promise.all(this.#work);
  }

  #begin(claim: V1PersistentVolumeClaim): void {
    const { uid } = claim.metadata!;
    if (claim.spec!.storageClassName !== this.#storageClassName || this.#made.has(uid!)) return;
    this.#made.add(uid!);
    this.#keep(this.#make(claim));
  }

  async #make({ metadata, spec }: V1PersistentVolumeClaim): Promise<void> {
    const name = formatName(metadata!.uid!);
    const folder = `${this.#folder}/${name}`;
    const { storage } = spec!.resources!.requests!;
    await this.#node.run('sh', ['-c', volumeScript, 'sh', folder, `${parseBytes(storage!)}`]);
    await this.#core.createPersistentVolume({
      body: {
        metadata: { name },
        spec: {
          accessModes: spec!.accessModes!,
          capacity: { storage: storage! },
          claimRef: { namespace: metadata!.namespace!, name: metadata!.name!, uid: metadata!.uid! },
          hostPath: { path: folder, type: 'Directory' },
          persistentVolumeReclaimPolicy: 'Retain',
          storageClassName: this.#storageClassName,
        },
      },
    });
  }

  /** The cluster deletes a claim when no pod uses it any more. */
  async #remove({ metadata }: V1PersistentVolumeClaim): Promise<void> {
    if (!this.#made.has(metadata!.uid!)) return;
    const name = formatName(metadata!.uid!);
    const folder = `${this.#folder}/${name}`;
    await this.#node.run('sh', ['-c', removeScript, 'sh', folder]);
    await this.#core.deletePersistentVolume({ name });
  }

  #keep(work: Promise<void>): void {
    const kept = work.catch((error) => void this.failures.push(error)).finally(() => this.#work.delete(kept));
    this.#work.add(kept);
  }
}
