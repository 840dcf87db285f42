import { type FormEvent, type ReactNode, useState } from 'react';
import { ApiError, type BodyOf, call, type DataOf, type InputOf, type OperationId } from '../api/client.ts';
import type { FormField } from '../api/form-field.ts';
import { formFields } from '../api/generated-forms.ts';
import { queryClient } from '../api/queries.ts';
import { Field } from './fields.tsx';
import { Problem } from './problem.tsx';

type Value = unknown;
type Values = Readonly<Record<string, Value>>;

/** An input of its own for one field, such as a choice among the person's projects. */
export type OwnInput = (props: {
  id: string;
  value: string;
  onChange: (value: string) => void;
  'aria-describedby': string;
}) => ReactNode;

/** By the name of a field, or its path without the numbers of rows, such as `custom_ports.name`. */
type ByField<Id extends OperationId, T> = Partial<
  Record<(keyof BodyOf<Id> & string) | `${keyof BodyOf<Id> & string}.${string}`, T>
>;

export interface BodyFormProps<Id extends OperationId> {
  operation: Id;
  path?: InputOf<Id>['path'];
  /** The fields in their order, by section. A section with a title is closed at first. */
  sections: readonly { title?: string; fields: readonly (keyof BodyOf<Id> & string)[] }[];
  labels?: ByField<Id, string>;
  help?: ByField<Id, ReactNode>;
  inputs?: ByField<Id, OwnInput>;
  /** Sent beside the fields. */
  fixed?: Partial<BodyOf<Id>>;
  /** The values of an object to change; only changed fields are sent. Of a new one: what stands in the fields at first. */
  initial?: Partial<BodyOf<Id>>;
  sendsChangesOnly?: boolean;
  submitLabel: string;
  /** Operations whose replies the change makes old. */
  changes: readonly OperationId[];
  /** @param sent the body, for example with a secret that no reply contains */
  onDone: (data: DataOf<Id>, sent: BodyOf<Id>) => void;
  onCancel?: () => void;
}

/**
 * A form for the body of an operation. Names, explanations, bounds and choices come from the OpenAPI document, and what
 * the API refuses is shown at its field.
 */
export function BodyForm<Id extends OperationId>(props: BodyFormProps<Id>) {
  const known = formFields[props.operation] ?? [];
  const [values, setValues] = useState<Values>((props.initial ?? {}) as Values);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [isSending, setSending] = useState(false);

  const send = async (event: FormEvent) => {
    event.preventDefault();
    setSending(true);
    setFailure(null);
    const given = bodyOf(known, values);
    const initial = props.sendsChangesOnly ? bodyOf(known, (props.initial ?? {}) as Values) : {};
    const changed = Object.entries(given).filter(([name, value]) => !isSame(value, initial[name]));
    const emptied = Object.keys(initial).filter((name) => !(name in given));
    const body = {
      ...Object.fromEntries(changed),
      ...Object.fromEntries(emptied.map((name) => [name, emptyFor(initial[name])])),
      ...props.fixed,
    };
    try {
      const data = await call(props.operation, { path: props.path, body } as unknown as InputOf<Id>);
      await Promise.all(props.changes.map((id) => queryClient.invalidateQueries({ queryKey: [id] })));
      props.onDone(data, body as BodyOf<Id>);
    } catch (error) {
      setFailure(error as ApiError);
    } finally {
      setSending(false);
    }
  };

  const shown = props.sections.map(({ title, fields }) => ({
    title,
    fields: fields.map((name) => known.find((each) => each.name === name)!),
  }));
  const own: Own = { labels: props.labels ?? {}, help: props.help ?? {}, inputs: props.inputs ?? {} };
  const problems = new Map(failure?.details.map(({ path, reason }) => [path, reason]));
  const isAtField = failure !== null && failure.details.length > 0;
  return (
    <form className="body-form" onSubmit={send} noValidate={false}>
      {shown.map(({ title, fields }) => {
        const inputs = fields.map((field) => (
          <FieldInput
            key={field.name}
            field={field}
            path={field.name}
            own={own}
            value={values[field.name]}
            onChange={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
            problems={problems}
          />
        ));
        if (title === undefined) return inputs;
        return (
          <details
            key={title}
            open={fields.some(({ name }) => [...problems.keys()].some((path) => path.startsWith(name)))}
          >
            <summary>{title}</summary>
            {inputs}
          </details>
        );
      })}
      {failure && (
        <Problem
          error={isAtField ? new ApiError({ ...failure, message: failure.message, details: failure.details }) : failure}
        />
      )}
      <footer className="form-footer">
        <button type="submit" className="primary" disabled={isSending}>
          {isSending ? 'Working …' : props.submitLabel}
        </button>
        {props.onCancel && (
          <button type="button" onClick={props.onCancel}>
            Cancel
          </button>
        )}
      </footer>
    </form>
  );
}

/** What a body says for a field whose value was removed. */
function emptyFor(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  return typeof value === 'number' ? null : '';
}

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** `cpu_count` as people read it: `CPU count`. */
function labelOf(name: string): string {
  const words = name.replaceAll('_', ' ').replace(/\b(cpu|id|url|oss)\b/g, (word) => word.toUpperCase());
  return words[0]!.toUpperCase() + words.slice(1).replace(/ mb$/, ' (MB)').replace(/ gb$/, ' (GB)');
}

/** What a page says about single fields instead of the OpenAPI document. */
interface Own {
  labels: Readonly<Record<string, string | undefined>>;
  help: Readonly<Record<string, ReactNode>>;
  inputs: Readonly<Record<string, OwnInput | undefined>>;
}

interface InputProps {
  field: FormField;
  /** The path of the field in the body, as errors name it. */
  path: string;
  value: Value;
  onChange: (value: Value) => void;
  problems: ReadonlyMap<string, string>;
  own: Own;
}

/** An input whose label and explanation are known. */
type NamedProps = InputProps & { label: string; explained: ReactNode };

function FieldInput(props: InputProps) {
  const { field, value, onChange, own } = props;
  const name = props.path.replace(/\.\d+/g, '');
  const label = own.labels[name] ?? labelOf(field.name);
  const explained = own.help[name] ?? <Explained text={field.help ?? ''} />;
  const named = { ...props, label, explained };
  if (field.kind === 'group') return <Group {...named} />;
  if (field.kind === 'rows') return <Rows {...named} />;
  if (field.kind === 'map') return <Pairs {...named} />;
  const text = Array.isArray(value) ? value.join('\n') : String(value ?? '');
  const example = field.example === undefined ? '' : `e.g. ${field.example}`;
  const help = (
    <>
      {explained}
      <Bounds field={field} />
    </>
  );
  if (field.kind === 'boolean') {
    return (
      <Field label={label} help={help} problem={props.problems.get(props.path)}>
        {(ids) => (
          <input
            {...ids}
            type="checkbox"
            checked={Boolean(value ?? field.default ?? false)}
            onChange={(event) => onChange(event.target.checked)}
          />
        )}
      </Field>
    );
  }
  return (
    <Field label={label} help={help} isRequired={field.isRequired} problem={props.problems.get(props.path)}>
      {(ids) => {
        const OwnInput = own.inputs[name];
        if (OwnInput) return <OwnInput {...ids} value={text} onChange={onChange} />;
        const common = { ...ids, value: text, required: field.isRequired ?? false };
        if (field.kind === 'choice') {
          return (
            <select {...common} onChange={(event) => onChange(event.target.value)}>
              {!field.isRequired && <option value="">{field.default ? `Default: ${field.default}` : 'Default'}</option>}
              {field.options!.map((option) => (
                <option key={option} value={option}>
                  {option.replaceAll('_', ' ')}
                </option>
              ))}
            </select>
          );
        }
        const lengths = { minLength: field.minLength, maxLength: field.maxLength, placeholder: example };
        if (field.kind === 'long_text' || field.kind === 'texts') {
          return <textarea {...common} {...lengths} rows={4} onChange={(event) => onChange(event.target.value)} />;
        }
        return (
          <input
            {...common}
            {...lengths}
            type={field.kind === 'number' ? 'number' : field.kind === 'secret' ? 'password' : 'text'}
            autoComplete={field.kind === 'secret' ? 'new-password' : 'off'}
            min={field.minimum}
            max={field.maximum}
            step="any"
            placeholder={field.default === undefined ? example : String(field.default)}
            onChange={(event) => onChange(event.target.value)}
          />
        );
      }}
    </Field>
  );
}

/** A text of the OpenAPI document, in which only `code` has a form of its own. */
export function Explained(props: { text: string }) {
  return props.text.split('`').map((part, index) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text keep their places
    index % 2 === 1 ? <code key={index}>{part}</code> : part,
  );
}

function Bounds({ field }: { field: FormField }) {
  const { minimum, maximum } = field;
  const texts = [
    minimum !== undefined && maximum !== undefined ? `${minimum} to ${maximum}` : null,
    minimum !== undefined && maximum === undefined ? `at least ${minimum}` : null,
    field.maxLength !== undefined && field.maxLength <= 128 ? `at most ${field.maxLength} characters` : null,
    field.kind === 'texts' ? 'one a line' : null,
  ].filter((text) => text !== null);
  return texts.length > 0 ? <span className="bounds"> ({texts.join(', ')})</span> : null;
}

function Group(props: NamedProps) {
  const values = (props.value ?? {}) as Values;
  return (
    <fieldset>
      <legend>{props.label}</legend>
      <p className="help">{props.explained}</p>
      {props.field.fields!.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          path={`${props.path}.${field.name}`}
          value={values[field.name]}
          onChange={(value) => props.onChange({ ...values, [field.name]: value })}
          problems={props.problems}
          own={props.own}
        />
      ))}
    </fieldset>
  );
}

function Rows(props: NamedProps) {
  const rows = (props.value ?? []) as Values[];
  const replace = (index: number, row: Values | null) =>
    props.onChange(rows.flatMap((each, at) => (at === index ? (row ? [row] : []) : [each])));
  return (
    <fieldset>
      <legend>{props.label}</legend>
      <p className="help">{props.explained}</p>
      {rows.map((row, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no names, and their inputs keep no state
        <div className="row-of-fields" key={index}>
          {props.field.fields!.map((field) => (
            <FieldInput
              key={field.name}
              field={field}
              path={`${props.path}.${index}.${field.name}`}
              value={row[field.name]}
              onChange={(value) => replace(index, { ...row, [field.name]: value })}
              problems={props.problems}
              own={props.own}
            />
          ))}
          <button type="button" onClick={() => replace(index, null)}>
            Remove
          </button>
        </div>
      ))}
      <button type="button" onClick={() => props.onChange([...rows, {}])}>
        Add
      </button>
    </fieldset>
  );
}

type Pair = readonly [name: string, value: string];

/** Names with values, such as environment variables. */
function Pairs(props: NamedProps) {
  const pairs = Array.isArray(props.value) ? (props.value as Pair[]) : Object.entries((props.value ?? {}) as Values);
  const replace = (index: number, pair: Pair | null) =>
    props.onChange(pairs.flatMap((each, at) => (at === index ? (pair ? [pair] : []) : [each])));
  const problem = [...props.problems].find(([path]) => path === props.path || path.startsWith(`${props.path}.`));
  return (
    <fieldset className={problem ? 'field-refused' : undefined}>
      <legend>{props.label}</legend>
      <p className="help">
        {problem && <span className="field-problem">{problem[1]} </span>}
        {props.explained}
      </p>
      {pairs.map(([name, value], index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no names, and their inputs keep no state
        <div className="pair" key={index}>
          <input
            aria-label={`${props.label}, name ${index + 1}`}
            placeholder="name"
            value={name}
            onChange={(event) => replace(index, [event.target.value, String(value)])}
          />
          <input
            aria-label={`${props.label}, value ${index + 1}`}
            placeholder="value"
            value={String(value)}
            onChange={(event) => replace(index, [name, event.target.value])}
          />
          <button type="button" aria-label={`Remove ${name || 'this pair'}`} onClick={() => replace(index, null)}>
            Remove
          </button>
        </div>
      ))}
      <button type="button" onClick={() => props.onChange([...pairs, ['', '']])}>
        Add
      </button>
    </fieldset>
  );
}

/** The body of the fields that have a value. */
function bodyOf(fields: readonly FormField[], values: Values): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const field of fields) {
    const value = toBody(field, values[field.name]);
    if (value !== undefined) body[field.name] = value;
  }
  return body;
}

function toBody(field: FormField, value: Value): unknown {
  if (value === undefined || value === null || value === '') return undefined;
  switch (field.kind) {
    case 'number':
      return Number(value);
    case 'texts': {
      const texts = Array.isArray(value) ? value : String(value).split('\n');
      const given = texts.map((text) => String(text).trim()).filter((text) => text !== '');
      return given.length > 0 ? given : undefined;
    }
    case 'map': {
      const pairs = Array.isArray(value) ? (value as Pair[]) : Object.entries(value as Values);
      return Object.fromEntries(pairs.filter(([name]) => name !== ''));
    }
    case 'group': {
      const group = bodyOf(field.fields!, value as Values);
      return Object.keys(group).length > 0 ? group : undefined;
    }
    case 'rows': {
      const rows = (value as Values[]).map((row) => bodyOf(field.fields!, row));
      return rows.length > 0 ? rows : undefined;
    }
    default:
      return value;
  }
}
