import type { Client } from 'pg';
import { readNodeTree, type TreeNode } from './node-tree.ts';
import { type NullFacts, resultColumns } from './nullability.ts';

/** A statement as Postgres understands it. */
export interface Description {
  /** Their number is that of the `?`. */
  parameters: string[];
  columns: DescribedColumn[];
}

export interface DescribedColumn {
  name: string;
  /** As `regtype` writes it, such as `timestamp with time zone`. */
  type: string;
  mayBeNull: boolean;
}

/** Describes statements on a migrated database, without effects. */
export class Describer {
  readonly #client: Client;
  readonly #facts: NullFacts;

  private constructor(client: Client, facts: NullFacts) {
    this.#client = client;
    this.#facts = facts;
  }

  static async on(client: Client): Promise<Describer> {
    const columns = await client.query<{ key: string }>(
      `select attrelid || '.' || attnum as key from pg_attribute where attnotnull and attnum > 0`,
    );
    const functions = await client.query<{ oid: string; name: string }>(
      `select p.oid::text as oid, case n.nspname when 'pg_catalog' then '' else n.nspname || '.' end || p.proname as name
         from pg_proc p join pg_namespace n on n.oid = p.pronamespace`,
    );
    return new Describer(client, {
      notNullColumns: new Set(columns.rows.map(({ key }) => key)),
      functionNames: new Map(functions.rows.map(({ oid, name }) => [oid, name])),
    });
  }

  /**
   * @param sql with `?` for values, as for `query`
   * @param nulls which values may be null. Null: each
   * @throws Postgres's error
   */
  async describe(sql: string, nulls: readonly boolean[] | null): Promise<Description> {
    let count = 0;
    const text = sql.replace(/\\\?|\?/g, (mark) => (mark === '?' ? `$${++count}` : '?'));
    await this.#client.query('begin');
    try {
      // Only these can be prepared. Others, such as NOTIFY, have no columns.
      if (!/^\s*(?:\(|select|with|insert|update|delete|merge|values)\b/i.test(text)) {
        await this.#client.query(text);
        return { parameters: [], columns: [] };
      }
      return await this.#describePrepared(text, nulls);
    } finally {
      await this.#client.query('rollback');
    }
  }

  async #describePrepared(text: string, nulls: readonly boolean[] | null): Promise<Description> {
    await this.#client.query(`prepare described as ${text}`);
    const { rows: prepared } = await this.#client.query<{ parameters: string[]; types: string[] | null }>(
      `select parameter_types::text[] as parameters, result_types::text[] as types
         from pg_prepared_statements where name = 'described'`,
    );
    await this.#client.query('deallocate described');
    const { parameters, types } = prepared[0]!;
    // The body of such a function is stored in analysed form. A function may have a hundred parameters, a statement more.
    const body = text.replace(/\$(\d+)/g, (_, number) => {
      const type = parameters[Number(number) - 1]!;
      return `(${nulls?.[Number(number) - 1] === false ? anyValue(type) : 'null'}::${type})`;
    });
    await this.#client.query(`create function pg_temp.analysed() returns void language sql begin atomic ${body}; end`);
    const { rows: functions } = await this.#client.query<{ body: string }>(
      `select prosqlbody::text as body from pg_proc where proname = 'analysed' and pronamespace = pg_my_temp_schema()`,
    );
    const [[statement]] = readNodeTree(functions[0]!.body) as [[TreeNode]];
    const columns = resultColumns(statement, this.#facts);
    return { parameters, columns: columns.map((column, index) => ({ ...column, type: types![index]! })) };
  }
}

/** A literal that is valid for a type. */
function anyValue(type: string): string {
  if (type.endsWith('[]') || type.startsWith('json')) return "'{}'";
  if (type === 'boolean') return 'false';
  if (type.startsWith('timestamp') || type === 'date') return "'epoch'";
  return type === 'uuid' ? 'gen_random_uuid()' : "'0'";
}
