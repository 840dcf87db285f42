import path from 'node:path';
import type { EntityManager } from '@mikro-orm/postgresql';
import { toFieldKind } from './compare.ts';
import type { Describer } from './describe.ts';

/** A statement that a function has sent. */
export interface SentStatement {
  /** The calls that led to it, innermost first, as `<file>:<line>:<column>`. */
  callers: string[];
  sql: string;
  values: readonly unknown[];
}

/**
 * Runs functions without effects: their statements are described instead of executed, and each has one made-up row. So
 * a function sends its statements as it does otherwise.
 */
export class DryRun {
  readonly sent: SentStatement[] = [];
  readonly em: EntityManager;
  readonly #root: string;
  readonly #describe: Describer['describe'];
  readonly #madeUp: Readonly<Record<string, unknown>>;

  /**
   * @param em of the migrated, empty database: entities are read from it
   * @param madeUp values of columns, by name. Other columns have any value of their type
   */
  constructor(
    root: string,
    em: EntityManager,
    describe: Describer['describe'],
    madeUp: Readonly<Record<string, unknown>>,
  ) {
    this.#root = root;
    this.#describe = describe;
    this.#madeUp = madeUp;
    const overrides: Record<string, unknown> = {
      execute: this.send,
      fork: () => this.em,
      transactional: (work: (tx: EntityManager) => unknown) => work(this.em),
      isInTransaction: () => false,
      flush: async () => {},
    };
    this.em = new Proxy(em, {
      get(target, name) {
        if (typeof name === 'string' && Object.hasOwn(overrides, name)) return overrides[name];
        const value = Reflect.get(target, name) as unknown;
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  /** For functions that take a function which sends a statement. */
  send = async (sql: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> => {
    this.sent.push({ callers: this.#callers(), sql, values });
    const { columns } = await this.#describe(sql, null);
    return [Object.fromEntries(columns.map(({ name, type }) => [name, this.#madeUp[name] ?? createSample(type)]))];
  };

  /** What a function makes of made-up rows does not matter, nor whether it fails with them. */
  async run(work: (em: EntityManager) => Promise<unknown>): Promise<void> {
    await work(this.em).catch(() => {});
  }

  #callers(): string[] {
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 50;
    const { stack = '' } = new Error();
    Error.stackTraceLimit = limit;
    return [...stack.matchAll(/file:\/\/(\S+:\d+:\d+)/g)].map(([, place]) => path.relative(this.#root, place!));
  }
}

function createSample(type: string): unknown {
  switch (toFieldKind(type)) {
    case null:
      return {};
    case 'array':
      return [];
    case 'boolean':
      return true;
    case 'number':
      return 1;
    default:
      return type.startsWith('timestamp') || type === 'date' ? '2026-01-01 00:00:00+00' : '1';
  }
}
