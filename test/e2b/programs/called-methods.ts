import { AsyncLocalStorage } from 'node:async_hooks';

// biome-ignore lint/complexity/noBannedTypes: classes of any shape
type AnyFunction = Function;

/** How docs/e2b.md calls objects of classes that the packages return, but do not export. */
const returned: Readonly<Record<string, string>> = {
  CommandHandle: 'handle',
  WatchHandle: 'watcher',
  SandboxPaginator: 'sandboxes',
  SnapshotPaginator: 'snapshots',
  SecretPaginator: 'secrets',
};

/**
 * Records which methods of a package a program calls itself. Calls of the package's methods by one another do not
 * count.
 */
export class CalledMethods {
  readonly names = new Set<string>();
  readonly #inside = new AsyncLocalStorage<true>();
  readonly #watched = new Set<object>();

  /** Watches the static methods of a class and of the classes that it extends, and the methods of its objects. */
  watchClass(exported: AnyFunction, ofClass: string, ofObject: string): void {
    for (let each = exported; each !== Function.prototype; each = Object.getPrototypeOf(each)) {
      this.#watch(each, ofClass);
      if (each.prototype) this.#watch(each.prototype, ofObject);
    }
  }

  /** Watches the methods of an object's class. */
  watchObject(object: object, name: string): void {
    for (let each = Object.getPrototypeOf(object); each !== Object.prototype; each = Object.getPrototypeOf(each)) {
      this.#watch(each, name);
    }
  }

  #watch(owner: object, receiver: string): void {
    if (this.#watched.has(owner)) return;
    this.#watched.add(owner);
    for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      const { value: method, writable } = descriptor;
      if (typeof method !== 'function' || !writable || name === 'constructor') continue;
      const { names } = this;
      const inside = this.#inside;
      const noteResult = (result: unknown) => this.#watchReturned(result);
      Object.defineProperty(owner, name, {
        ...descriptor,
        value(this: unknown, ...args: unknown[]) {
          if (inside.getStore()) return method.apply(this, args);
          names.add(`${receiver}.${name}`);
          const result = inside.run(true, () => method.apply(this, args));
          if (result instanceof Promise) return result.then((value) => noteResult(value));
          return noteResult(result);
        },
      });
    }
  }

  #watchReturned<T>(result: T): T {
    const name = typeof result === 'object' && result !== null ? returned[result.constructor?.name] : undefined;
    if (name) this.watchObject(result as object, name);
    return result;
  }
}
