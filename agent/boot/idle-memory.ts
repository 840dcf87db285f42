import { isLoaded, libc } from '../native/libc.ts';

/** How long nothing must happen. */
const quietMs = 1000;

/**
 * Gives memory back when the agent has nothing to do: V8 keeps what it has grown to until it needs to collect, which
 * an idle sandbox never does. One collection takes some 15 ms.
 */
export class IdleMemory {
  private readonly timer: NodeJS.Timeout;
  private collect: ((options: object) => void) | undefined;

  constructor() {
    this.timer = setTimeout(() => this.release(), quietMs).unref();
  }

  /** Something happens: the quiet begins anew. */
  touch(): void {
    this.timer.refresh();
  }

  private release(): void {
    this.collect ??= collector();
    this.collect({ type: 'major', flavor: 'last-resort' });
    if (isLoaded()) libc().malloc_trim(0);
  }
}

/** V8's own collector, which node gives out only to programs started with a flag (that would cost 30 ms at start). */
function collector(): (options: object) => void {
  const v8 = process.getBuiltinModule('node:v8');
  v8.setFlagsFromString('--expose-gc');
  const collect = process.getBuiltinModule('node:vm').runInNewContext('gc');
  v8.setFlagsFromString('--no-expose-gc');
  return collect;
}
