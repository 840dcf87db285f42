import type { KubernetesObject, ListWatch } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import { readSandboxId } from './names.ts';

/** The names of pods or disks whose name is not their sandbox's id, because they were made before the sandbox. */
export class SandboxNames {
  readonly #names = new Map<SandboxId, string>();

  /** Follows the changes of the objects. Call this before they are listed. */
  follow<Type extends KubernetesObject>(objects: Pick<ListWatch<Type>, 'on'>): void {
    const note = (object: Type) => {
      const [sandboxId, name] = [readSandboxId(object), object.metadata!.name!];
      if (sandboxId && name !== sandboxId) this.#names.set(sandboxId, name);
    };
    objects.on('add', note);
    objects.on('update', note);
    objects.on('delete', (object) => {
      const sandboxId = readSandboxId(object);
      if (sandboxId && this.#names.get(sandboxId) === object.metadata!.name) this.#names.delete(sandboxId);
    });
  }

  of(sandboxId: SandboxId): string | null {
    return this.#names.get(sandboxId) ?? null;
  }
}
