import type { ReactNode } from 'react';
import type { FormField } from '../api/form-field.ts';
import type { Pair, Value, Values } from './body-values.ts';
import { Field } from './fields.tsx';

/** An input of its own for one field, such as a choice among the person's projects. */
export type OwnInput = (props: {
  id: string;
  value: string;
  onChange: (value: string) => void;
  'aria-describedby': string;
}) => ReactNode;

/** `cpu_count` as people read it: `CPU count`. */
function labelOf(name: string): string {
  const words = name.replaceAll('_', ' ').replace(/\b(cpu|id|url|oss)\b/g, (word) => word.toUpperCase());
  return words[0]!.toUpperCase() + words.slice(1).replace(/ mb$/, ' (MB)').replace(/ gb$/, ' (GB)');
}

/** What a page says about single fields instead of the OpenAPI document. */
export interface Own {
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

export function FieldInput(props: InputProps) {
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
      <Bounds field={field} isText={own.inputs[name] === undefined} />
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

/** @param props.isText the person writes it freely */
function Bounds({ field, isText }: { field: FormField; isText: boolean }) {
  const { minimum, maximum } = field;
  const texts = [
    minimum !== undefined && maximum !== undefined ? `${minimum} to ${maximum}` : null,
    minimum !== undefined && maximum === undefined ? `at least ${minimum}` : null,
    isText && field.maxLength !== undefined && field.maxLength <= 128 ? `at most ${field.maxLength} characters` : null,
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
