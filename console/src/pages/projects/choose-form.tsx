import { type FormEvent, type ReactNode, useState } from 'react';
import type { ApiError } from '../../api/client.ts';
import { Field } from '../../components/fields.tsx';
import { Empty } from '../../components/loaded.tsx';
import { Problem } from '../../components/problem.tsx';
import { visibleText } from '../../format/text.ts';

/** A form that chooses one of several objects and does something with it. */
export function ChooseForm(props: {
  label: string;
  help: ReactNode;
  options: readonly (readonly [value: string, label: string])[];
  /** Shown if there is nothing to choose. */
  empty: ReactNode;
  submitLabel: string;
  run: (value: string) => Promise<unknown>;
  onDone: (value: string) => void;
}) {
  const [value, setValue] = useState('');
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [isSending, setSending] = useState(false);
  if (props.options.length === 0) return <Empty>{props.empty}</Empty>;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setSending(true);
    setFailure(null);
    try {
      await props.run(value);
      props.onDone(value);
    } catch (error) {
      setFailure(error as ApiError);
    } finally {
      setSending(false);
    }
  };
  return (
    <form className="body-form" onSubmit={submit}>
      <Field label={props.label} help={props.help} isRequired>
        {(ids) => (
          <select {...ids} required value={value} onChange={(event) => setValue(event.target.value)}>
            <option value="">Choose one</option>
            {props.options.map(([each, label]) => (
              <option key={each} value={each}>
                {visibleText(label)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {failure && <Problem error={failure} />}
      <footer className="form-footer">
        <button type="submit" className="primary" disabled={isSending}>
          {isSending ? 'Working …' : props.submitLabel}
        </button>
      </footer>
    </form>
  );
}
