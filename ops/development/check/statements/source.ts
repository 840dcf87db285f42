import path from 'node:path';
import {
  type CallExpression,
  type Expression,
  type Node,
  NodeFlags,
  type SourceFile,
  type TemplateExpression,
} from 'typescript/unstable/ast';
import {
  isArrayLiteralExpression,
  isCallExpression,
  isConditionalExpression,
  isIdentifier,
  isParenthesizedExpression,
  isPropertyAssignment,
  isSpreadElement,
  isTemplateExpression,
  isVariableDeclaration,
} from 'typescript/unstable/ast/is';
import { API, type Checker, type Project, type Type, TypeFlags } from 'typescript/unstable/sync';

/** The kinds of values that a field of a declared row may have. `object`: JSON; `unknown`: every value. */
export type FieldKind = 'string' | 'number' | 'boolean' | 'array' | 'object' | 'unknown';

export interface DeclaredField {
  kinds: ReadonlySet<FieldKind>;
  mayBeNull: boolean;
  isOptional: boolean;
  /** As it is written. */
  type(): string;
}

/** A row type, by the names of its fields. */
export type DeclaredRow = ReadonlyMap<string, DeclaredField>;

/** A value for a `?`. */
export interface GivenValue {
  kinds: ReadonlySet<FieldKind>;
  mayBeNull: boolean;
}

/** A call of `query`. */
export interface StatementCall {
  /** `<file>:<line>:<column>` of the called name. */
  place: string;
  /** Every text that the call may have. Null: only a run shows them. */
  texts: string[] | null;
  /** The type argument. Null: the call has none, so its rows are not read. */
  row: DeclaredRow | null;
  /** The row is a type parameter, so the caller of the function around the call declares it. */
  isDeclaredByCaller: boolean;
  /** The values, if the call lists them. */
  values: GivenValue[] | null;
}

/** An SQL condition that is put into statements. */
export interface Fragment {
  place: string;
  /** Matches statements that contain it. */
  pattern: RegExp;
}

export interface Statements {
  calls: StatementCall[];
  /** The texts of properties `sql`. */
  fragments: Fragment[];
  /** The row types of all calls that have a type argument, by place. */
  declaredRows: ReadonlyMap<string, () => DeclaredRow>;
}

/** Finds the calls of `query` in the folders of a project. */
export function readStatements(root: string, folders: readonly string[]): Statements & Disposable {
  const api = new API({ cwd: root });
  const config = path.join(root, 'tsconfig.json');
  const project = api.updateSnapshot({ openProjects: [config] }).getProject(config)!;
  const calls: StatementCall[] = [];
  const fragments: Fragment[] = [];
  const declaredRows = new Map<string, () => DeclaredRow>();
  for (const name of project.program.getSourceFileNames()) {
    if (!folders.some((folder) => name.startsWith(path.join(root, folder, '/')))) continue;
    const reader = new FileReader(project, project.program.getSourceFile(name)!, path.relative(root, name));
    fragments.push(...reader.fragments());
    for (const call of reader.calls()) {
      const place = reader.formatPlace(call);
      const [row] = call.typeArguments ?? [];
      if (row) declaredRows.set(place, () => reader.readRow(project.checker.getTypeFromTypeNode(row)!));
      if (isIdentifier(call.expression) && call.expression.text === 'query') calls.push(reader.readStatement(call));
    }
  }
  return { calls, fragments, declaredRows, [Symbol.dispose]: () => api.close() };
}

class FileReader {
  readonly #checker: Checker;
  readonly #project: Project;
  readonly #source: SourceFile;
  readonly #file: string;

  constructor(project: Project, source: SourceFile, file: string) {
    this.#project = project;
    this.#checker = project.checker;
    this.#source = source;
    this.#file = file;
  }

  calls(): CallExpression[] {
    return this.#all(isCallExpression);
  }

  fragments(): Fragment[] {
    return this.#all(isPropertyAssignment).flatMap(({ name, initializer }) =>
      isIdentifier(name) && name.text === 'sql' && initializer
        ? this.#readPatterns(initializer).map((pattern) => ({ place: this.#formatPlace(initializer), pattern }))
        : [],
    );
  }

  /** Nothing for texts that only put others together. */
  #readPatterns(expression: Expression): RegExp[] {
    const texts = this.#readTexts(expression);
    if (texts) return texts.map((text) => new RegExp(escaped(text)));
    if (isTemplateExpression(expression)) {
      const parts = [expression.head, ...expression.templateSpans.map(({ literal }) => literal)];
      return [
        new RegExp(
          parts
            .map(({ text }) => escaped(text))
            .filter(Boolean)
            .join('[^]*'),
        ),
      ];
    }
    return [];
  }

  #all<Found extends Node>(isWanted: (node: Node) => node is Found): Found[] {
    const found: Found[] = [];
    const visit = (node: Node): undefined => {
      if (isWanted(node)) found.push(node);
      node.forEachChild(visit);
    };
    visit(this.#source);
    return found;
  }

  formatPlace({ expression }: CallExpression): string {
    return this.#formatPlace(expression);
  }

  #formatPlace(node: Node): string {
    const before = this.#source.text.slice(0, node.getStart(this.#source));
    const lines = before.split('\n');
    return `${this.#file}:${lines.length}:${lines.at(-1)!.length + 1}`;
  }

  readStatement(call: CallExpression): StatementCall {
    const [row] = call.typeArguments ?? [];
    const [, sql, values] = call.arguments;
    const type = row && this.#checker.getTypeFromTypeNode(row)!;
    const isDeclaredByCaller = type?.isTypeParameter() ?? false;
    return {
      place: this.formatPlace(call),
      texts: sql ? this.#readTexts(sql) : null,
      row: type && !isDeclaredByCaller ? this.readRow(type) : null,
      isDeclaredByCaller,
      values: values ? this.#readValues(values) : [],
    };
  }

  readRow(type: Type): DeclaredRow {
    const properties = this.#checker.getPropertiesOfType(type);
    const types = this.#checker.getTypeOfSymbol(properties);
    return new Map(properties.map(({ name }, index) => [name, this.#readField(types[index]!)]));
  }

  #readField(type: Type): DeclaredField {
    const parts = type.isUnionType() ? (type.getTypes() ?? []) : [type];
    const has = (flag: TypeFlags) => parts.some(({ flags }) => (flags & flag) !== 0);
    const values = parts.filter(({ flags }) => (flags & (TypeFlags.Null | TypeFlags.Undefined)) === 0);
    return {
      kinds: new Set(values.map((value) => this.#readKind(value))),
      mayBeNull: has(TypeFlags.Null),
      isOptional: has(TypeFlags.Undefined),
      type: () => this.#checker.typeToString(type),
    };
  }

  #readKind(type: Type): FieldKind {
    const is = (flags: TypeFlags) => (type.flags & flags) !== 0;
    if (is(TypeFlags.Unknown | TypeFlags.Any)) return 'unknown';
    if (is(TypeFlags.StringLike)) return 'string';
    if (is(TypeFlags.NumberLike)) return 'number';
    if (is(TypeFlags.BooleanLike)) return 'boolean';
    if (type.isIntersectionType()) {
      // A simple type with a brand.
      return (type.getTypes() ?? []).map((part) => this.#readKind(part)).find((kind) => kind !== 'object') ?? 'object';
    }
    return this.#checker.isArrayLikeType(type) ? 'array' : 'object';
  }

  /** Null: the array is not written at the call. */
  #readValues(values: Expression): GivenValue[] | null {
    if (!isArrayLiteralExpression(values)) return null;
    const given: GivenValue[] = [];
    for (const element of values.elements) {
      const type = this.#checker.getTypeAtLocation(element);
      const more = isSpreadElement(element) ? this.#readValues(element.expression) : type && [this.#readValue(type)];
      if (!more) return null;
      given.push(...more);
    }
    return given;
  }

  #readValue(type: Type): GivenValue {
    const { kinds, mayBeNull, isOptional } = this.#readField(type);
    return { kinds, mayBeNull: mayBeNull || isOptional || kinds.has('unknown') };
  }

  /** The texts that an expression may have. Null: they are not constant. */
  #readTexts(expression: Expression): string[] | null {
    if (isParenthesizedExpression(expression)) return this.#readTexts(expression.expression);
    if (isConditionalExpression(expression)) {
      return together([this.#readTexts(expression.whenTrue), this.#readTexts(expression.whenFalse)]);
    }
    const literals = this.#readLiterals(expression);
    if (literals) return literals;
    if (isTemplateExpression(expression)) return this.#readTemplateTexts(expression);
    if (isIdentifier(expression)) {
      const declaration = this.#checker.getSymbolAtLocation(expression)?.valueDeclaration?.resolve(this.#project);
      const initial =
        declaration && isVariableDeclaration(declaration) && isConst(declaration) && declaration.initializer;
      return initial ? this.#readTexts(initial) : null;
    }
    return null;
  }

  #readLiterals(expression: Expression): string[] | null {
    const type = this.#checker.getTypeAtLocation(expression);
    const parts = type?.isUnionType() ? (type.getTypes() ?? []) : type ? [type] : [];
    return together(
      parts.map((part) =>
        part.isStringLiteralType() || part.isNumberLiteralType() ? [String((part as { value: unknown }).value)] : null,
      ),
    );
  }

  /** The same expression has the same text at all its places. */
  #readTemplateTexts({ head, templateSpans }: TemplateExpression): string[] | null {
    const choices = new Map<string, string[] | null>();
    const readName = (span: Expression) => span.getText(this.#source);
    for (const { expression } of templateSpans) {
      const name = readName(expression);
      if (!choices.has(name)) choices.set(name, this.#readTexts(expression));
    }
    let combinations: Record<string, string>[] = [{}];
    for (const [name, texts] of choices) {
      if (!texts) return null;
      combinations = combinations.flatMap((chosen) => texts.map((text) => ({ ...chosen, [name]: text })));
    }
    return combinations.map((chosen) =>
      templateSpans.reduce(
        (text, { expression, literal }) => text + chosen[readName(expression)] + literal.text,
        head.text,
      ),
    );
  }
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

const together = (parts: readonly (string[] | null)[]): string[] | null =>
  parts.length > 0 && parts.every((part) => part !== null) ? parts.flat() : null;

const isConst = ({ parent }: Node): boolean => (parent.flags & NodeFlags.Const) !== 0;
