import type { InputHTMLAttributes } from 'react';
import type { DataOf } from '../../api/client.ts';
import { Field } from '../../components/fields.tsx';
import { visibleText } from '../../format/text.ts';

type Slot = NonNullable<DataOf<'getSandbox'>['object_storage']>[number];

/** What happens with a bucket when the sandbox runs again. */
export interface MountRow {
  action: 'keep' | 'keys' | 'disable' | 'delete';
  /** The sandbox does not have it yet. */
  isNew: boolean;
  mount_point: string;
  uri: string;
  region: string;
  endpoint: string;
  access_key: string;
  secret_key: string;
  session_token: string;
}

/** An entry of `object_storage.mounts`. */
export type Change = { mount_point: string } & Record<string, string | boolean>;

const noKeys = { access_key: '', secret_key: '', session_token: '' };

export const newRow: MountRow = {
  ...{ action: 'keys', isNew: true, mount_point: '', uri: '', region: '', endpoint: '' },
  ...noKeys,
};

export const rowOf = ({ mount_point, uri, region = '', endpoint = '' }: Slot): MountRow => ({
  ...{ action: 'keep', isNew: false, mount_point, uri, region, endpoint },
  ...noKeys,
});

/** Null: nothing changes. */
export function changeOf({ action, isNew: _, ...fields }: MountRow): Change | null {
  const { mount_point } = fields;
  if (action === 'keep') return null;
  if (action !== 'keys') return { mount_point, [action]: true };
  const given = Object.entries(fields).filter(([, value]) => value !== '');
  return { ...Object.fromEntries(given), mount_point };
}

const actions: Readonly<Record<MountRow['action'], string>> = {
  keep: 'Keep as it is',
  keys: 'Mount with new keys',
  disable: 'Disable',
  delete: 'Remove',
};

/** @param props.onChange null: the row is removed */
export function MountRowFields({ row, onChange }: { row: MountRow; onChange: (row: MountRow | null) => void }) {
  const text = (name: keyof typeof noKeys | 'mount_point' | 'uri' | 'region' | 'endpoint') => ({
    value: row[name],
    onChange: (event: { target: { value: string } }) => onChange({ ...row, [name]: event.target.value }),
  });
  return (
    <fieldset>
      <legend>{row.isNew ? 'New bucket' : visibleText(`${row.mount_point} (${row.uri})`)}</legend>
      {row.isNew ? (
        <>
          <TextField label="Bucket" help="s3://bucket/folder or oss://bucket/folder." isRequired {...text('uri')} />
          <TextField
            label="Folder in the sandbox"
            help="An absolute path. A missing folder is made."
            isRequired
            {...text('mount_point')}
          />
          <div className="row-of-fields">
            <TextField label="Region" help="Or an endpoint." {...text('region')} />
            <TextField label="Endpoint" help="The address of an S3-compatible server." {...text('endpoint')} />
          </div>
        </>
      ) : (
        <Field label="When it runs again">
          {(ids) => (
            <select
              {...ids}
              value={row.action}
              onChange={(event) => onChange({ ...row, action: event.target.value as MountRow['action'] })}
            >
              {Object.entries(actions).map(([action, label]) => (
                <option key={action} value={action}>
                  {label}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {row.action === 'keys' && (
        <div className="row-of-fields">
          <TextField label="Access key" isRequired {...text('access_key')} />
          <TextField label="Secret key" type="password" isRequired {...text('secret_key')} />
          <TextField
            label="Session token"
            help="Only for short-lived keys."
            type="password"
            {...text('session_token')}
          />
        </div>
      )}
      {row.isNew && (
        <button type="button" onClick={() => onChange(null)}>
          Leave it out
        </button>
      )}
    </fieldset>
  );
}

function TextField({
  label,
  help,
  isRequired = false,
  ...input
}: { label: string; help?: string; isRequired?: boolean } & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <Field label={label} help={help} isRequired={isRequired}>
      {(ids) => (
        <input
          {...ids}
          {...input}
          required={isRequired}
          autoComplete={input.type === 'password' ? 'new-password' : 'off'}
          spellCheck={false}
        />
      )}
    </Field>
  );
}
