import type { FormField } from '../../../console/src/api/form-field.ts';

// biome-ignore lint/suspicious/noExplicitAny: JSON schemas are walked, not read
type Part = any;

/** Texts that may be longer than this are written in several lines. */
const oneLineLength = 2048;
/** The largest integers of the API's schemas only bound a column; no form needs to say so. */
const largestInteger = 2_147_483_647;

/** The fields of the bodies of all operations, by operation. */
export function formFields(document: object): Record<string, FormField[]> {
  const { paths } = document as Part;
  const fields: Record<string, FormField[]> = {};
  for (const operation of Object.values<Part>(paths).flatMap((item) => Object.values<Part>(item))) {
    const schema = operation.requestBody?.content['application/json']?.schema;
    if (schema?.properties) fields[operation.operationId] = fieldsOf(schema);
  }
  return fields;
}

/** The source of `generated-forms.ts` of the console. */
export function formFieldsSource(document: object): string {
  const text = JSON.stringify(formFields(document), null, 1);
  return `// Generated (see console/README.md). Do not edit.\nimport type { FormField } from './form-field.ts';\n\nexport const formFields: Readonly<Record<string, readonly FormField[]>> = ${text};\n`;
}

function fieldsOf(schema: Part): FormField[] {
  const required = new Set<string>(schema.required ?? []);
  return Object.entries<Part>(schema.properties).map(([name, property]) => toField(name, property, required.has(name)));
}

function toField(name: string, property: Part, isRequired: boolean): FormField {
  const schema = withoutNull(property);
  const [example] = property.examples ?? schema.examples ?? [];
  const initial = property.default ?? schema.default;
  return {
    name,
    ...kindOf(name, schema),
    ...(isRequired && { isRequired: true as const }),
    ...definedOf({
      help: property.description ?? schema.description,
      example: typeof example === 'string' || typeof example === 'number' ? String(example) : undefined,
      default: initial === '' ? undefined : initial,
      minimum: schema.minimum,
      maximum: schema.maximum >= largestInteger ? undefined : schema.maximum,
      minLength: schema.minLength,
      maxLength: schema.maxLength,
      pattern: schema.pattern,
    }),
  };
}

/** A body may leave most fields out as null; a form leaves them out. Of several forms, the one with the most parts. */
function withoutNull(schema: Part): Part {
  const choices = (schema.anyOf ?? schema.oneOf)?.filter((each: Part) => each.type !== 'null').map(withoutNull);
  if (choices) return choices.find((each: Part) => each.type === 'array') ?? choices[0];
  if (!Array.isArray(schema.type)) return schema;
  return { ...schema, type: schema.type.find((type: string) => type !== 'null') };
}

function kindOf(name: string, schema: Part): Pick<FormField, 'kind' | 'options' | 'fields'> {
  if (schema.enum) return { kind: 'choice', options: schema.enum.map(String) };
  switch (schema.type) {
    case 'boolean':
      return { kind: 'boolean' };
    case 'integer':
    case 'number':
      return { kind: 'number' };
    case 'array': {
      const items = withoutNull(schema.items);
      return items.properties ? { kind: 'rows', fields: fieldsOf(items) } : { kind: 'texts' };
    }
    case 'object':
      return schema.properties ? { kind: 'group', fields: fieldsOf(schema) } : { kind: 'map' };
    default:
      if (/password|secret/.test(name)) return { kind: 'secret' };
      return { kind: schema.maxLength > oneLineLength ? 'long_text' : 'text' };
  }
}

function definedOf<T extends object>(fields: T): { [Key in keyof T]?: NonNullable<T[Key]> } {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  ) as never;
}
