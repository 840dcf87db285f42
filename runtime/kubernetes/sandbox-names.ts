import type { KubernetesObject, ListWatch } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import { sandboxOf } from './names.ts';

/** The names of objects of sandboxes that are not their sandbox's id: they were made before it. */
export class SandboxNames {
  readonly #names = new Map<SandboxId, string>();

  /** Call it before the objects are listed. */
  follow<Type extends KubernetesObject>(objects: Pick<ListWatch<Type>, 'on'>): void {
    const note = (object: Type) => {
      const [sandboxId, name] = [sandboxOf(object), object.metadata!.name!];
      if (sandboxId && name !== sandboxId) this.#names.set(sandboxId, name);
    };
    objects.on('add', note);
    objects.on('update', note);
    objects.on('delete', (object) => {
      const sandboxId = sandboxOf(object);
      if (sandboxId && this.#names.get(sandboxId) === object.metadata!.name) this.#names.delete(sandboxId);
    });
  }

  of(sandboxId: SandboxId): string | null {
    return this.#names.get(sandboxId) ?? null;
  }
}
