import type { ChangeEvent } from 'react';
import type { OwnInput } from './body-inputs.tsx';

interface PortRow {
  port?: number | undefined;
  name?: string;
  protocol?: string;
  service_port?: number | undefined;
  is_protected?: boolean;
}

const protocols = ['TCP', 'UDP', 'WEBRTC'];

/** Fields for ports that a body takes as a JSON array in a text. */
export const PortsInput: OwnInput = ({ id, value, onChange, 'aria-describedby': describedBy }) => {
  const rows = readRows(value);
  const write = (next: readonly PortRow[]) => onChange(JSON.stringify(next));
  const change = (index: number, changes: PortRow) =>
    write(rows.map((row, at) => (at === index ? { ...row, ...changes } : row)));
  return (
    <fieldset id={id} aria-label="Ports" aria-describedby={describedBy}>
      {rows.map((row, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no names, and their inputs keep no state
        <fieldset className="row-of-fields" key={index} aria-label={`Port ${row.port ?? index + 1}`}>
          <label>
            Port
            <input required {...portField(row.port, (port) => change(index, { port }))} />
          </label>
          <label>
            Name
            <input
              required
              maxLength={64}
              value={row.name ?? ''}
              onChange={(event) => change(index, { name: event.target.value })}
            />
          </label>
          <label>
            Protocol
            <select value={row.protocol ?? 'TCP'} onChange={(event) => change(index, { protocol: event.target.value })}>
              {protocols.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
          <label>
            Port of the server, if another
            <input {...portField(row.service_port, (port) => change(index, { service_port: port }))} />
          </label>
          <label className="checked-label">
            <input
              type="checkbox"
              checked={row.is_protected ?? false}
              onChange={(event) => change(index, { is_protected: event.target.checked })}
            />
            Needs the access token
          </label>
          <button type="button" onClick={() => write(rows.filter((_, at) => at !== index))}>
            Remove
          </button>
        </fieldset>
      ))}
      <button type="button" onClick={() => write([...rows, {}])}>
        Add a port
      </button>
    </fieldset>
  );
};

/** The attributes of a field for the number of a port. */
const portField = (value: number | undefined, onChange: (value: number | undefined) => void) => ({
  type: 'number',
  min: 1,
  max: 65535,
  value: value ?? '',
  onChange: (event: ChangeEvent<HTMLInputElement>) =>
    onChange(event.target.value === '' ? undefined : Number(event.target.value)),
});

function readRows(text: string): readonly PortRow[] {
  try {
    const rows: unknown = JSON.parse(text);
    return Array.isArray(rows) ? rows : [];
  } catch {
    return [];
  }
}
