import type { ReactNode } from 'react';
import type { OwnInput } from './body-inputs.tsx';

type Ready = Readonly<Record<string, unknown>>;

const types = [
  ['exec', 'A command succeeds'],
  ['httpGet', 'A server replies over HTTP'],
  ['tcpSocket', 'A port takes connections'],
] as const;

/** How often and how long it is tried. */
const timings = [
  ['initialDelaySeconds', 'Seconds before the first try', 0],
  ['periodSeconds', 'Seconds between two tries', 1],
  ['timeoutSeconds', 'Seconds for a try', 5],
  ['failureThreshold', 'Tries', 60],
] as const;

/** Fields for the check that a new sandbox is ready, which a body takes as JSON in a text. */
export const ReadyCommandInput: OwnInput = ({ id, value, onChange, 'aria-describedby': describedBy }) => {
  const ready = readReady(value);
  const change = (changes: Ready) => onChange(JSON.stringify({ ...ready, ...changes }));
  const text = (name: string) => String(ready[name] ?? '');
  return (
    <>
      <select
        id={id}
        aria-describedby={describedBy}
        value={text('type')}
        onChange={(event) => (event.target.value === '' ? onChange('') : change({ type: event.target.value }))}
      >
        <option value="">Its command runs</option>
        {types.map(([type, label]) => (
          <option key={type} value={type}>
            {label}
          </option>
        ))}
      </select>
      {ready.type === 'exec' && (
        <Labelled label="Command">
          <input
            required
            value={commandLine(ready.command)}
            onChange={(event) => change({ command: event.target.value })}
          />
        </Labelled>
      )}
      {(ready.type === 'httpGet' || ready.type === 'tcpSocket') && (
        <div className="row-of-fields">
          <Labelled label="Port">
            <input
              type="number"
              required
              min={1}
              max={65535}
              value={text('port')}
              onChange={(event) => change({ port: numberOf(event.target.value) })}
            />
          </Labelled>
          {ready.type === 'httpGet' && (
            <>
              <Labelled label="Path">
                <input
                  placeholder="/"
                  value={text('path')}
                  onChange={(event) => change({ path: event.target.value || undefined })}
                />
              </Labelled>
              <Labelled label="Scheme">
                <select
                  value={ready.scheme === 'HTTPS' ? 'HTTPS' : 'HTTP'}
                  onChange={(event) => change({ scheme: event.target.value })}
                >
                  <option>HTTP</option>
                  <option>HTTPS</option>
                </select>
              </Labelled>
            </>
          )}
        </div>
      )}
      {ready.type !== undefined && (
        <div className="row-of-fields">
          {timings.map(([name, label, fallback]) => (
            <Labelled key={name} label={label}>
              <input
                type="number"
                min={0}
                max={3600}
                step="any"
                placeholder={String(fallback)}
                value={text(name)}
                onChange={(event) => change({ [name]: numberOf(event.target.value) })}
              />
            </Labelled>
          ))}
        </div>
      )}
    </>
  );
};

function Labelled(props: { label: string; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child
    <label>
      {props.label}
      {props.children}
    </label>
  );
}

const numberOf = (text: string) => (text === '' ? undefined : Number(text));

/** The check with its fields beside each other, as the API also takes it: `{"type": "exec", "command": …}`. */
export function readReady(text: string): Ready {
  try {
    const given = JSON.parse(text) as Ready;
    const type = given.type ?? types.map(([name]) => name).find((name) => Object.hasOwn(given, name));
    const { [String(type)]: nested, ...rest } = given;
    return { ...rest, ...(typeof nested === 'object' ? nested : {}), ...(type !== undefined && { type }) };
  } catch {
    return {};
  }
}

/** A list of arguments as a command line of a shell. */
export function commandLine(command: unknown): string {
  if (!Array.isArray(command)) return String(command ?? '');
  return command
    .map((word) => (/^[\w./:=@%+,-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`))
    .join(' ');
}
