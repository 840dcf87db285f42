import { type Html, html } from '../../domain/html.ts';
import { renderInline } from './markdown.ts';

/** Any JSON part of an OpenAPI document. */
// biome-ignore lint/suspicious/noExplicitAny: schemas are walked, not read
export type Part = any;

/** The named schemas of a document. */
export type Schemas = Readonly<Record<string, Part>>;

/** The fields of a schema as a list, and the fields below them. Null: it has none. */
export function fieldList(schema: Part, schemas: Schemas, within: readonly string[] = []): Html | null {
  const { schema: found, names } = resolve(schema, schemas, within);
  if (!found) return null;
  const variants = (found.anyOf ?? found.oneOf ?? []).filter((each: Part) => each.type !== 'null');
  if (variants.length > 0) {
    const lists = variants
      .map((each: Part) => fieldList(each, schemas, names))
      .filter((each: Html | null) => each !== null);
    return lists.length === 0 ? null : html`${lists}`;
  }
  if (found.items) return fieldList(found.items, schemas, names);
  const fields = Object.entries<Part>(found.properties ?? {});
  if (fields.length === 0) {
    const values = found.additionalProperties;
    return typeof values === 'object' ? fieldList(values, schemas, names) : null;
  }
  const required = new Set<string>(found.required);
  return html`<dl class="fields">
${fields.map(([name, field]) => fieldEntry(name, field, required.has(name), schemas, names))}</dl>
`;
}

/** A field, a parameter or a header. */
export function fieldEntry(
  name: string,
  field: Part,
  isRequired: boolean,
  schemas: Schemas,
  within: readonly string[] = [],
): Html {
  const description = field.description ?? resolve(field, schemas, within).schema?.description;
  const below = fieldList(field, schemas, within);
  return html`<dt><code>${name}</code> <span>${typeText(field, schemas)}${isRequired ? html` <strong>required</strong>` : null}</span></dt>
<dd>${description ? html`<p>${renderInline(description)}</p>` : null}${exampleText(field)}${below ? html`<details><summary>Its fields</summary>${below}</details>` : null}</dd>
`;
}

function exampleText({ default: initial, examples: [example] = [] }: Part): Html | null {
  const parts = [
    initial === undefined || initial === '' ? null : html`default <code>${JSON.stringify(initial)}</code>`,
    example === undefined ? null : html`such as <code>${JSON.stringify(example)}</code>`,
  ].filter((part) => part !== null);
  return parts.length === 0
    ? null
    : html`<p class="quiet">${parts.map((part, index) => html`${index === 0 ? '' : ', '}${part}`)}</p>`;
}

/** Follows a reference. A schema inside itself has no fields the second time. */
function resolve(
  schema: Part,
  schemas: Schemas,
  within: readonly string[],
): { schema: Part; names: readonly string[] } {
  if (!schema?.$ref) return { schema, names: within };
  const name = schema.$ref.split('/').at(-1);
  return { schema: within.includes(name) ? null : schemas[name], names: [...within, name] };
}

/** The type with its bounds, such as `integer 1…64 or null`. */
function typeText(schema: Part, schemas: Schemas): string {
  if (schema.$ref) {
    const name: string = schema.$ref.split('/').at(-1);
    const { type, enum: values } = schemas[name] ?? {};
    return values
      ? typeText(schemas[name], schemas)
      : type === 'object' || !type
        ? name
        : typeText(schemas[name], schemas);
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value: unknown) => JSON.stringify(value)).join(' | ');
  const variants: Part[] | undefined = schema.anyOf ?? schema.oneOf;
  if (variants) return [...new Set(variants.map((each) => typeText(each, schemas)))].join(' or ');
  if (schema.type === 'array')
    return `list of ${schema.items ? typeText(schema.items, schemas) : 'any'}${rangeText(schema.minItems, schema.maxItems, ' items')}`;
  const type = [schema.type ?? 'any'].flat().join(' or ');
  const format = schema.format ? ` (${schema.format})` : '';
  const length = rangeText(schema.minLength, schema.maxLength, ' characters');
  return `${type}${format}${length}${rangeText(schema.minimum, schema.maximum, '')}`;
}

/** Larger bounds are those of the database. */
const uninteresting = 1_000_000_000;

function rangeText(least: number | undefined, most: number | undefined, unit: string): string {
  const upper = most === undefined || most >= uninteresting ? undefined : most;
  if (least === undefined && upper === undefined) return '';
  if (upper === undefined) return least === 0 ? '' : `, at least ${least}${unit}`;
  return least === undefined ? `, at most ${upper}${unit}` : `, ${least} to ${upper}${unit}`;
}
