import { type FormEvent, useState } from 'react';
import type { ApiError, BodyOf, DataOf } from '../../api/client.ts';
import { Field } from '../../components/fields.tsx';
import { Problem } from '../../components/problem.tsx';
import { type Change, changeOf, type MountRow, MountRowFields, newRow, rowOf } from './mount-row.tsx';

type Slot = NonNullable<DataOf<'getSandbox'>['object_storage']>[number];
type Body = BodyOf<'resumeSandbox'>;

/** What happens with each mounted bucket when a sandbox runs again. */
export function MountsForm(props: {
  slots: readonly Slot[];
  submitLabel: string;
  isDangerous: boolean;
  run: (body: Body) => Promise<unknown>;
  onDone: () => void;
  onCancel: () => void;
}) {
  const [rows, setRows] = useState<readonly MountRow[]>(() =>
    props.slots.filter(({ state }) => state !== 'free').map(rowOf),
  );
  const [goesOnWithout, setGoesOnWithout] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [isSending, setSending] = useState(false);
  const replace = (index: number, row: MountRow | null) =>
    setRows(rows.flatMap((each, at) => (at === index ? (row ? [row] : []) : [each])));
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setSending(true);
    setFailure(null);
    const mounts = rows.map(changeOf).filter((each): each is Change => each !== null);
    try {
      await props.run({
        best_effort_oss: goesOnWithout,
        ...(mounts.length > 0 && { object_storage: { mounts } }),
      } as unknown as Body);
      props.onDone();
    } catch (error) {
      setFailure(error as ApiError);
    } finally {
      setSending(false);
    }
  };
  return (
    <form className="body-form" onSubmit={submit}>
      {rows.map((row, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no names, and their inputs keep no state
        <MountRowFields key={index} row={row} onChange={(next) => replace(index, next)} />
      ))}
      <p>
        <button type="button" onClick={() => setRows([...rows, newRow])}>
          Add a bucket
        </button>
      </p>
      <Field label="Go on without buckets that cannot be mounted" help="They become disabled, and keep their place.">
        {(ids) => (
          <input
            {...ids}
            type="checkbox"
            checked={goesOnWithout}
            onChange={(event) => setGoesOnWithout(event.target.checked)}
          />
        )}
      </Field>
      {failure && <Problem error={failure} />}
      <footer className="form-footer">
        <button type="submit" className={props.isDangerous ? 'danger primary' : 'primary'} disabled={isSending}>
          {isSending ? 'Working …' : props.submitLabel}
        </button>
        <button type="button" onClick={props.onCancel}>
          Cancel
        </button>
      </footer>
    </form>
  );
}
