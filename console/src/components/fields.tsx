import { type ReactNode, useId } from 'react';

/** A field with its label, and below it what it means or why it was refused. */
export function Field(props: {
  label: string;
  help?: ReactNode;
  problem?: string | undefined;
  isRequired?: boolean | undefined;
  children: (ids: { id: string; 'aria-describedby': string; 'aria-invalid': boolean }) => ReactNode;
}) {
  const id = useId();
  return (
    <div className={props.problem ? 'field field-refused' : 'field'}>
      <label htmlFor={id}>
        {props.label}
        {props.isRequired ? <span className="required"> (required)</span> : null}
      </label>
      {props.children({ id, 'aria-describedby': `${id}-help`, 'aria-invalid': Boolean(props.problem) })}
      <p id={`${id}-help`} className="help">
        {props.problem ? <span className="field-problem">{props.problem}</span> : null}
        {props.help}
      </p>
    </div>
  );
}
