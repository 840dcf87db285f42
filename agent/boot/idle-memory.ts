import { isLoaded, libc } from '../native/libc.ts';

/** How long the agent must be idle. A shorter time would collect within the pauses of a person or a program at work. */
const quietMs = 3000;

/**
 * Releases memory when the agent is idle. V8 keeps its heap until it needs a collection, which never happens in an idle
 * sandbox. One collection takes about 15 ms.
 */
export class IdleMemory {
  #timer: NodeJS.Timeout | null;
  #collect: ((options: object) => void) | undefined;

  constructor() {
    this.#timer = this.#startTimer();
  }

  /** Restarts the idle period. */
  touch(): void {
    if (this.#timer) this.#timer.refresh();
    else this.#timer = this.#startTimer();
  }

  /** Releases memory now. Does nothing until the memory was used again. */
  release(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#collect ??= collector();
    this.#collect({ type: 'major', flavor: 'last-resort' });
    if (isLoaded()) libc().malloc_trim(0);
  }

  #startTimer(): NodeJS.Timeout {
    return setTimeout(() => this.release(), quietMs).unref();
  }
}

/** V8's own collector. Node exposes it only to programs with a flag, which would cost 30 ms at the start. */
function collector(): (options: object) => void {
  const v8 = process.getBuiltinModule('node:v8');
  v8.setFlagsFromString('--expose-gc');
  const collect = process.getBuiltinModule('node:vm').runInNewContext('gc');
  v8.setFlagsFromString('--no-expose-gc');
  return collect;
}
