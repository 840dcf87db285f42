import type { EntityManager } from '@mikro-orm/postgresql';
import { Client } from 'pg';
import { createOrm } from '../../../../db/orm.ts';
import { differences, unreadColumns, wrongValues } from './compare.ts';
import { Describer, type Description } from './describe.ts';
import { DryRun, type SentStatement } from './dry-run.ts';
import { type DeclaredRow, type GivenValue, readStatements, type StatementCall, type Statements } from './source.ts';

/** Makes functions send the statements whose text is not constant. */
export interface Examples {
  send(dry: DryRun): Promise<void>;
  /** Values of columns in made-up rows, by name. */
  madeUp: Readonly<Record<string, unknown>>;
  /** Files whose statements need no example. */
  unchecked: readonly string[];
}

/**
 * Describes every statement on a migrated database, and compares it with its call: the columns with the declared row,
 * the `?` with the values.
 * @param root a folder with a `tsconfig.json`
 * @param folders those with calls of `query`
 * @returns a line for each difference; empty when there is none
 */
export async function checkStatements(options: {
  root: string;
  folders: readonly string[];
  databaseUrl: string;
  examples: Examples;
}): Promise<string[]> {
  const { root, folders, databaseUrl, examples } = options;
  using statements = readStatements(root, folders);
  const client = new Client({ connectionString: databaseUrl });
  const orm = await createOrm(databaseUrl, 2, null);
  try {
    await client.connect();
    const describe = oneByOne(await Describer.on(client));
    const dry = new DryRun(root, orm.em.fork() as EntityManager, describe, examples.madeUp);
    await examples.send(dry);
    return await new StatementCheck(statements, dry.sent, describe).findings(examples.unchecked);
  } finally {
    await orm.close();
    await client.end();
  }
}

type Describe = Describer['describe'];

/** Each text once, and no two at the same time, because a description uses a transaction of the only connection. */
function oneByOne(describer: Describer): Describe {
  const known = new Map<string, Promise<Description>>();
  let last: Promise<unknown> = Promise.resolve();
  return (sql, nulls) => {
    const key = JSON.stringify([sql, nulls]);
    const found = known.get(key) ?? last.then(() => describer.describe(sql, nulls));
    known.set(key, found);
    last = found.catch(() => {});
    return found;
  };
}

class StatementCheck {
  readonly #statements: Statements;
  readonly #sent: readonly SentStatement[];
  readonly #describe: Describe;
  readonly #findings = new Set<string>();
  readonly #texts = new Set<string>();

  constructor(statements: Statements, sent: readonly SentStatement[], describe: Describe) {
    this.#statements = statements;
    this.#sent = sent;
    this.#describe = describe;
  }

  /** @param unchecked files whose statements need no example */
  async findings(unchecked: readonly string[]): Promise<string[]> {
    const { calls, fragments } = this.#statements;
    if (calls.length === 0) throw new Error('there is no call of query');
    for (const call of calls) {
      if (call.texts) for (const sql of call.texts) await this.#check(call, sql, call.values, call.row);
      else if (!unchecked.some((file) => call.place.startsWith(`${file}:`))) await this.#checkSent(call);
    }
    const places = new Set(calls.map(({ place }) => place));
    for (const { sql, callers } of this.#sent) {
      // A function may also send a statement with another connection.
      if (!callers.some((place) => places.has(place))) await this.#described(callers[1]!, sql, null);
    }
    for (const { place, pattern } of fragments) {
      const isSent = [...this.#texts].some((text) => pattern.test(text));
      if (!isSent) this.#add(place, ['no example sends a statement with this condition']);
    }
    return [...this.#findings];
  }

  /** The statements of a call whose text is not constant. */
  async #checkSent(call: StatementCall): Promise<void> {
    const { declaredRows } = this.#statements;
    const sent = this.#sent.filter(({ callers }) => callers.includes(call.place));
    if (sent.length === 0) this.#add(call.place, ['the text is not constant, and no example sends it']);
    for (const { callers, sql, values } of sent) {
      const outer = callers.slice(callers.indexOf(call.place) + 1).find((place) => declaredRows.has(place));
      const row = call.isDeclaredByCaller && outer ? declaredRows.get(outer)!() : call.row;
      await this.#check(call, sql, values.map(sentValue), row);
    }
  }

  async #check({ place }: StatementCall, sql: string, values: GivenValue[] | null, row: DeclaredRow | null) {
    const description = await this.#described(place, sql, values);
    if (!description) return;
    if (values) this.#add(place, wrongValues(values, description));
    this.#add(place, row ? differences(row, description) : unreadColumns(description));
  }

  async #described(place: string, sql: string, values: GivenValue[] | null): Promise<Description | null> {
    this.#texts.add(sql);
    try {
      return await this.#describe(sql, values?.map(({ mayBeNull }) => mayBeNull) ?? null);
    } catch (error) {
      this.#add(place, [(error as Error).message]);
      return null;
    }
  }

  #add(place: string, findings: readonly string[]): void {
    for (const finding of findings) this.#findings.add(`${place}: ${finding}`);
  }
}

/** Its kind is not compared, because Postgres may derive the type of a parameter from other sent values. */
const sentValue = (value: unknown): GivenValue => ({
  kinds: new Set(),
  mayBeNull: value === null || value === undefined,
});
