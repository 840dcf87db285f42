import { loadModule, parsePlPgSQLSync } from 'libpg-query';
import type { Client } from 'pg';

interface DatabaseFunction {
  name: string;
  language: 'plpgsql' | 'sql';
  definition: string;
  /** Types by name. Null: it has none. */
  parameters: Record<string, string> | null;
  /** Of its triggers. Null: it is no trigger function. */
  tables: { name: string; added: string | null }[] | null;
}

/**
 * Checks the statements and expressions in the functions of a migrated database. Postgres checks only their syntax when
 * it makes a function in PL/pgSQL, and the schema may have changed since a function was made. Not checked: NOTIFY, and
 * the texts of EXECUTE, which are made when the function runs.
 * @returns a line for each statement that Postgres refuses
 */
export async function checkFunctions(client: Client): Promise<string[]> {
  await loadModule();
  const { rows } = await client.query<DatabaseFunction>(
    `select p.proname as name, l.lanname as language, pg_get_functiondef(p.oid) as definition,
            (select jsonb_object_agg(argument, format_type(type, null))
               from unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes::oid[])) as a(argument, type)) as parameters,
            (select jsonb_agg(distinct jsonb_build_object('name', tgrelid::regclass, 'added', tgnewtable))
               from pg_trigger where tgfoid = p.oid and tgparentid = 0) as tables
       from pg_proc p join pg_language l on l.oid = p.prolang
      where p.pronamespace = 'public'::regnamespace order by 1`,
  );
  const findings = new Set<string>();
  for (const each of rows) {
    const { name, language, definition, tables } = each;
    const note = (message: string, text: string) => findings.add(`function ${name}: ${message} in: ${text.trim()}`);
    if (language === 'sql') await attempt(client, [definition], note);
    else for (const table of tables ?? [null]) await checkBody(client, each, table, note);
  }
  return [...findings];
}

type Note = (message: string, text: string) => void;

/** Makes an SQL function of each statement, with the variables of the whole function as parameters. */
async function checkBody(
  client: Client,
  { name, definition, parameters: declaredTypes }: DatabaseFunction,
  table: { name: string; added: string | null } | null,
  note: Note,
): Promise<void> {
  const { datums, action } = parsed(definition);
  const variables = new Map<string, string>();
  for (const { PLpgSQL_var: variable, PLpgSQL_rec: record } of datums) {
    const declared = variable ?? record;
    if (!declared) continue;
    const type = declaredTypes?.[declared.refname] ?? declared.datatype?.PLpgSQL_type.typname ?? table?.name;
    if (type) variables.set(declared.refname, type);
  }
  const parameters = [...variables].map(([variable, type]) => `"${variable}" ${type}`).join(', ');
  const before = table?.added ? [`create temp table ${table.added} (like ${table.name})`] : [];
  for (const { query, parseMode } of expressionsIn([datums, action])) {
    const statement = parseMode === 0 ? query : `select ${query.replace(parseMode === 2 ? '' : /^[\w.]+\s*:?=/, '')}`;
    if (/^\s*notify\b/i.test(statement)) continue;
    const body = `returns void language sql begin atomic ${statement}; end`;
    await attempt(client, [...before, `create function pg_temp.${name}(${parameters}) ${body}`], (message) =>
      note(message, query),
    );
  }
}

async function attempt(client: Client, statements: readonly string[], note: Note): Promise<void> {
  await client.query('begin');
  try {
    for (const statement of statements) await client.query(statement);
  } catch (error) {
    note((error as Error).message, statements.at(-1)!);
  } finally {
    await client.query('rollback');
  }
}

/** `parseMode`: 0 for a statement, 2 for an expression, above it an assignment. */
interface Expression {
  query: string;
  parseMode: number;
}

interface Variable {
  refname: string;
  datatype?: { PLpgSQL_type: { typname: string } };
}

interface ParsedFunction {
  datums: { PLpgSQL_var?: Variable; PLpgSQL_rec?: Variable }[];
  action: unknown;
}

function parsed(definition: string): ParsedFunction {
  const { plpgsql_funcs: functions } = parsePlPgSQLSync(definition) as unknown as {
    plpgsql_funcs: [{ PLpgSQL_function: ParsedFunction }];
  };
  return functions[0].PLpgSQL_function;
}

function expressionsIn(tree: unknown): Expression[] {
  if (typeof tree !== 'object' || tree === null) return [];
  return Object.entries(tree).flatMap(([name, value]) =>
    name === 'PLpgSQL_expr' ? [value as Expression] : expressionsIn(value),
  );
}
