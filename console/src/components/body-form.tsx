import { type FormEvent, type ReactNode, useState } from 'react';
import { type ApiError, type BodyOf, call, type DataOf, type InputOf, type OperationId } from '../api/client.ts';
import { formFields } from '../api/generated-forms.ts';
import { queryClient } from '../api/queries.ts';
import { FieldInput, type Own, type OwnInput } from './body-inputs.tsx';
import { changesOf, type Values } from './body-values.ts';
import { Problem } from './problem.tsx';

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
  /** The form shows the failure. */
  onFailure?: (error: ApiError) => void;
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
    const before = props.sendsChangesOnly ? ((props.initial ?? {}) as Values) : {};
    const body = { ...changesOf(known, before, values), ...props.fixed };
    try {
      const data = await call(props.operation, { path: props.path, body } as unknown as InputOf<Id>);
      await Promise.all(props.changes.map((id) => queryClient.invalidateQueries({ queryKey: [id] })));
      props.onDone(data, body as BodyOf<Id>);
    } catch (error) {
      setFailure(error as ApiError);
      props.onFailure?.(error as ApiError);
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
  return (
    <form className="body-form" onSubmit={send}>
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
      {failure && <Problem error={failure} />}
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
