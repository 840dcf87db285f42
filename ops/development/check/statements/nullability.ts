import type { TreeNode, TreeValue } from './node-tree.ts';

/** The facts of the schema that decide whether a value may be null. */
export interface NullFacts {
  /** `<table's oid>.<number>` of each column that is `not null`. */
  notNullColumns: ReadonlySet<string>;
  /** Names of functions by oid. Those that are not built in have the name of their schema before them. */
  functionNames: ReadonlyMap<string, string>;
}

/** A selected or returned column. */
export interface ResultColumn {
  name: string;
  mayBeNull: boolean;
}

/**
 * The columns of a statement. A column is not null only if the analysed statement proves it: it is a `not null` column
 * on no nullable side of an outer join, or WHERE excludes null, or it is an expression of such values that is never
 * null. Everything else may be null.
 * @param query the `QUERY` node
 */
export function resultColumns(query: TreeNode, facts: NullFacts): ResultColumn[] {
  return new Proof(facts).columns({ query, outer: null });
}

/** Functions that are never null. */
const neverNull = new Set([
  ...['count', 'row_number', 'rank', 'dense_rank', 'now', 'clock_timestamp', 'statement_timestamp', 'current_schema'],
  ...['transaction_timestamp', 'concat', 'concat_ws', 'format', 'jsonb_build_object', 'jsonb_build_array'],
  ...['gen_random_uuid', 'random', 'generate_series', 'pg_try_advisory_xact_lock'],
  // Those of the schema, or single columns of their rows.
  ...['public.admit_sign_in', 'public.begin_session', 'public.find_sign_in.is_known_address'],
  ...['public.drop_metrics_partitions', 'public.drop_usage_partitions', 'public.drop_webhook_partitions'],
  ...['public.make_metrics_partitions', 'public.make_usage_partitions', 'public.make_webhook_partitions'],
  ...['public.purge_audit_events', 'public.record_template_storage', 'public.roll_up_usage'],
]);

/** Functions that are not null if all arguments are not null. */
const strict = new Set([
  ...['abs', 'ceil', 'floor', 'round', 'div', 'mod', 'power', 'trim_scale', 'md5', 'lower', 'upper', 'left', 'right'],
  ...['length', 'replace', 'split_part', 'btrim', 'starts_with', 'quote_ident', 'quote_literal', 'to_char'],
  ...['date_bin', 'date_trunc', 'extract', 'timezone', 'make_interval', 'jsonb_array_length'],
]);

/** Aggregates that are null only without a row, or if all their arguments are null. */
const ofSomeRow = new Set(['sum', 'min', 'max', 'avg', 'bool_and', 'bool_or', 'array_agg', 'jsonb_agg', 'string_agg']);

/** A query, and the query around it to which variables and common table expressions refer by level. */
interface Scope {
  query: TreeNode;
  outer: Scope | null;
  /** Columns of the written table have their new values. */
  isReturning?: boolean;
}

class Proof {
  readonly #facts: NullFacts;
  readonly #known = new WeakMap<TreeNode, ResultColumn[]>();
  /** Columns of set operations that are being proved. A recursive query refers to its own columns. */
  readonly #open = new Set<TreeNode>();

  constructor(facts: NullFacts) {
    this.#facts = facts;
  }

  columns(scope: Scope): ResultColumn[] {
    const { query } = scope;
    const known = this.#known.get(query);
    if (known) return known;
    const isReturning = query.fields.commandType !== '1';
    const columns = nodes(query.fields[isReturning ? 'returningList' : 'targetList'])
      .filter(({ fields }) => fields.resjunk !== 'true')
      .map((target, index) => ({
        name: String(target.fields.resname ?? '?column?'),
        mayBeNull: !this.#isColumnProved({ ...scope, isReturning }, target, index),
      }));
    // What is proved for a recursive query holds only together with the rest of it.
    if (this.#open.size === 0) this.#known.set(query, columns);
    return columns;
  }

  #isColumnProved(scope: Scope, target: TreeNode, index: number): boolean {
    const { query } = scope;
    if (!isNode(query.fields.setOperations)) return this.#isProved(scope, target.fields.expr);
    if (this.#open.has(target)) return true;
    this.#open.add(target);
    const isProved = listArms(query.fields.setOperations).every((arm) => this.#isFieldProved(scope, arm, index + 1));
    this.#open.delete(target);
    return isProved;
  }

  #isProved(scope: Scope, value: TreeValue | undefined): boolean {
    if (!isNode(value)) return false;
    const { type, fields } = value;
    const every = (list: TreeValue | undefined) => nodes(list).every((each) => this.#isProved(scope, each));
    if (type !== 'VAR' && isExcludedByWhere(scope.query, value)) return true;
    switch (type) {
      case 'CONST':
        return fields.constisnull === 'false';
      case 'VAR':
        return this.#isVariableProved(scope, value);
      case 'COALESCEEXPR':
      case 'MINMAXEXPR':
        return nodes(fields.args).some((each) => this.#isProved(scope, each));
      case 'FUNCEXPR':
        return this.#isCallProved(value, () => every(fields.args));
      case 'OPEXPR':
        // Those that read from JSON may find nothing.
        return !this.#findName(fields.opfuncid).startsWith('json') && every(fields.args);
      case 'AGGREF': {
        const name = this.#findName(fields.aggfnoid);
        if (neverNull.has(name)) return true;
        // A group has at least one row.
        const hasRows = !isEmpty(scope.query.fields.groupClause) && isEmpty(scope.query.fields.groupingSets);
        return hasRows && isEmpty(fields.aggfilter) && ofSomeRow.has(name) && every(listArguments(fields.args));
      }
      case 'WINDOWFUNC':
        return neverNull.has(this.#findName(fields.winfnoid));
      case 'BOOLEXPR':
        return every(fields.args);
      case 'RELABELTYPE':
      case 'COERCEVIAIO':
      case 'ARRAYCOERCEEXPR':
        return this.#isProved(scope, fields.arg);
      case 'NULLTEST':
      case 'BOOLEANTEST':
      case 'DISTINCTEXPR':
      case 'ARRAYEXPR':
      case 'ROWEXPR':
      case 'SQLVALUEFUNCTION':
        return true;
      case 'CASEEXPR':
        return (
          this.#isProved(scope, fields.defresult) &&
          nodes(fields.args).every((when) => this.#isProved(scope, when.fields.result))
        );
      case 'SUBLINK':
        return this.#isSubqueryProved(scope, value);
      default:
        return false;
    }
  }

  #findName(oid: TreeValue | undefined): string {
    return this.#facts.functionNames.get(String(oid)) ?? '';
  }

  #isCallProved({ fields }: TreeNode, areArgumentsProved: () => boolean): boolean {
    const name = this.#findName(fields.funcid);
    if (neverNull.has(name)) return true;
    const [explicitCast, implicitCast] = ['1', '2'];
    const isCast = fields.funcformat === explicitCast || fields.funcformat === implicitCast;
    return (isCast || strict.has(name)) && areArgumentsProved();
  }

  /** A column of a function in FROM. */
  #isResultProved(call: TreeValue | undefined, column: string): boolean {
    const name = isNode(call) ? this.#findName(call.fields.funcid) : '';
    return neverNull.has(name) || neverNull.has(`${name}.${column}`);
  }

  #isSubqueryProved(scope: Scope, { fields }: TreeNode): boolean {
    const [exists, expression, array] = ['0', '4', '6'];
    if (fields.subLinkType === exists || fields.subLinkType === array) return true;
    if (fields.subLinkType !== expression || !isNode(fields.subselect)) return false;
    const query = fields.subselect;
    // A query of aggregates without groups has exactly one row.
    const { hasAggs, groupClause, groupingSets, havingQual, limitCount, limitOffset } = query.fields;
    const hasOneRow =
      hasAggs === 'true' && [groupClause, groupingSets, havingQual, limitCount, limitOffset].every(isEmpty);
    return hasOneRow && this.columns({ query, outer: scope })[0]?.mayBeNull === false;
  }

  #isVariableProved(scope: Scope, variable: TreeNode): boolean {
    const { varlevelsup, varno, varattno, varnullingrels, varreturningtype } = variable.fields;
    let of: Scope = scope;
    for (let level = Number(varlevelsup); level > 0; level -= 1) of = of.outer!;
    if (isExcludedByWhere(of.query, { type: 'VAR', fields: { ...variable.fields, varlevelsup: '0' } })) return true;
    if (Array.isArray(varnullingrels) && varnullingrels.length > 1) return false;
    // `old` and `new` may be without a row.
    if (varreturningtype !== undefined && varreturningtype !== '0') return false;
    const assigned = of.isReturning ? assignedTo(of.query, String(varno), String(varattno)) : null;
    if (assigned && this.#isProved({ ...of, isReturning: false }, assigned)) return true;
    return this.#isFieldProved(of, String(varno), Number(varattno));
  }

  #isTablesColumnNotNull({ query }: Scope, varno: string, attribute: string): boolean {
    return this.#facts.notNullColumns.has(
      `${nodes(query.fields.rtable)[Number(varno) - 1]!.fields.relid}.${attribute}`,
    );
  }

  /** Whether a column of an entry of FROM is never null. */
  #isFieldProved(scope: Scope, varno: string, attribute: number): boolean {
    const entry = nodes(scope.query.fields.rtable)[Number(varno) - 1];
    // Zero stands for the whole row, negative numbers for system columns.
    if (!entry || attribute === 0) return false;
    if (attribute < 0) return true;
    const { rtekind, subquery, joinaliasvars, values_lists: rows, groupexprs, functions } = entry.fields;
    switch (rtekind) {
      case '0':
        return this.#isTablesColumnNotNull(scope, varno, String(attribute));
      case '1':
        return isNode(subquery) && this.columns({ query: subquery, outer: scope })[attribute - 1]?.mayBeNull === false;
      case '2':
        return this.#isProved(scope, nodes(joinaliasvars)[attribute - 1]);
      case '3': {
        const [only, ...more] = nodes(functions);
        return more.length === 0 && this.#isResultProved(only!.fields.funcexpr, columnNames(entry)[attribute - 1]!);
      }
      case '5':
        return (rows as TreeValue[]).every((row) => this.#isProved(scope, nodes(row)[attribute - 1]));
      case '6': {
        const found = commonTable(scope, entry);
        return found !== null && this.columns(found)[attribute - 1]?.mayBeNull === false;
      }
      case '9':
        return this.#isProved(scope, nodes(groupexprs)[attribute - 1]);
      default:
        return false;
    }
  }
}

/** The common table expression to which an entry of FROM refers. */
function commonTable(scope: Scope, entry: TreeNode): Scope | null {
  let of = scope;
  for (let level = Number(entry.fields.ctelevelsup); level > 0; level -= 1) of = of.outer!;
  const found = nodes(of.query.fields.cteList).find(({ fields }) => fields.ctename === entry.fields.ctename);
  return found && isNode(found.fields.ctequery) ? { query: found.fields.ctequery, outer: of } : null;
}

function columnNames({ fields }: TreeNode): string[] {
  const names = isNode(fields.eref) ? fields.eref.fields.colnames : null;
  return Array.isArray(names) ? names.map(String) : [];
}

/** The entries of FROM that a set operation puts together. */
function listArms({ type, fields }: TreeNode): string[] {
  if (type === 'RANGETBLREF') return [String(fields.rtindex)];
  return [fields.larg, fields.rarg].flatMap((arm) => (isNode(arm) ? listArms(arm) : []));
}

/** The value that an INSERT or UPDATE gives a column of its table. Null: none. */
function assignedTo(query: TreeNode, varno: string, attribute: string): TreeValue {
  const { commandType, resultRelation, targetList, onConflict } = query.fields;
  const [update, insert] = ['2', '3'];
  if (resultRelation !== varno) return null;
  // The row may also be one of the table that ON CONFLICT updates.
  if (commandType !== update && !(commandType === insert && isEmpty(onConflict))) return null;
  return nodes(targetList).find(({ fields }) => fields.resno === attribute)?.fields.expr ?? null;
}

/** Whether WHERE is not true for rows in which a value is null. */
function isExcludedByWhere(query: TreeNode, value: TreeNode): boolean {
  const { jointree, resultRelation } = query.fields;
  const { varno, varattno } = value.fields;
  // WHERE reads the row before an UPDATE.
  if (resultRelation === varno && assignedTo(query, String(varno), String(varattno)) !== null) return false;
  return isNode(jointree) && isNode(jointree.fields.quals) && notNullIf(jointree.fields.quals).has(formatNode(value));
}

const requirements = new WeakMap<TreeNode, ReadonlySet<string>>();

/** The texts of the values that are not null if the condition is true. */
function notNullIf(condition: TreeNode): ReadonlySet<string> {
  const known = requirements.get(condition);
  if (known) return known;
  const { type, fields } = condition;
  const isNotNull = '1';
  let values: string[] = [formatNode(condition)];
  if (type === 'BOOLEXPR' && fields.boolop !== 'not') {
    const [first, ...others] = nodes(fields.args).map(notNullIf);
    values =
      fields.boolop === 'and'
        ? [first!, ...others].flatMap((each) => [...each])
        : [...first!].filter((value) => others.every((each) => each.has(value)));
  } else if (type === 'NULLTEST') {
    values = fields.nulltesttype === isNotNull ? listNames(fields.arg) : [];
  } else if (type === 'OPEXPR' || type === 'SCALARARRAYOPEXPR') {
    // A comparison with null is not true.
    values = nodes(fields.args).flatMap(listNames);
  } else if (type === 'SUBLINK' && isNode(fields.testexpr)) {
    // IN.
    values = [...notNullIf(fields.testexpr)];
  }
  const found = new Set(values);
  requirements.set(condition, found);
  return found;
}

/** The texts of a value, and of the same value before a change of its type alone. */
const listNames = (value: TreeValue | undefined): string[] =>
  isNode(value) ? [formatNode(value), ...(value.type === 'RELABELTYPE' ? listNames(value.fields.arg) : [])] : [];

const texts = new WeakMap<TreeNode, string>();
function formatNode(node: TreeNode): string {
  const text = texts.get(node) ?? JSON.stringify(node);
  texts.set(node, text);
  return text;
}

/** The arguments of an aggregate are the columns of a list. */
const listArguments = (list: TreeValue | undefined): TreeValue[] =>
  nodes(list).map(({ fields }) => fields.expr ?? null);

const isNode = (value: TreeValue | undefined): value is TreeNode =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const nodes = (value: TreeValue | undefined): TreeNode[] => (Array.isArray(value) ? value.filter(isNode) : []);
const isEmpty = (value: TreeValue | undefined): boolean => value === null || value === undefined;
