import { type ReactNode, useState, useSyncExternalStore } from 'react';
import { visibleText } from '../format/text.ts';
import { formatAgo, formatTime, formatUtc } from '../format/time.ts';
import { useNotice } from './notices.tsx';

const clock = { nowMs: Date.now(), listeners: new Set<() => void>(), timer: 0 };

function followClock(listener: () => void): () => void {
  clock.listeners.add(listener);
  // What has just come is not in the future.
  clock.nowMs = Date.now();
  clock.timer ||= window.setInterval(() => {
    clock.nowMs = Date.now();
    for (const each of clock.listeners) each();
  }, 10_000);
  return () => {
    clock.listeners.delete(listener);
    if (clock.listeners.size > 0) return;
    window.clearInterval(clock.timer);
    clock.timer = 0;
  };
}

/** The time, which moves on every ten seconds for all components together. */
const useNow = () => useSyncExternalStore(followClock, () => clock.nowMs);

/** A time as people say it; the exact one, and UTC, stand in its title. */
export function Ago(props: { at: string | null | undefined }) {
  const nowMs = useNow();
  if (!props.at) return <span className="none">–</span>;
  return (
    <time dateTime={props.at} title={`${formatTime(props.at)}\n${formatUtc(props.at)}`}>
      {formatAgo(props.at, nowMs)}
    </time>
  );
}

/** A time in the reader's zone; its title has UTC. */
export function At(props: { at: string | null | undefined }) {
  if (!props.at) return <span className="none">–</span>;
  return (
    <time dateTime={props.at} title={formatUtc(props.at)}>
      {formatTime(props.at)}
    </time>
  );
}

/** A text of a user. Control characters and marks that turn the direction of text are shown as signs. */
export function Text(props: { children: string | null | undefined }) {
  if (!props.children) return <span className="none">–</span>;
  return <bdi>{visibleText(props.children)}</bdi>;
}

/** An id or a code, which can be copied. */
export function Copyable(props: { text: string; label: string; isSecret?: boolean }) {
  const notify = useNotice();
  const [isShown, setShown] = useState(!props.isSecret);
  const copy = async () => {
    await navigator.clipboard.writeText(props.text);
    notify(`${props.label} copied`);
  };
  return (
    <span className="copyable">
      <code>{isShown ? visibleText(props.text) : '••••••••••••'}</code>
      {props.isSecret && (
        <button type="button" className="quiet" onClick={() => setShown(!isShown)}>
          {isShown ? 'Hide' : 'Show'}
        </button>
      )}
      <button type="button" className="quiet" aria-label={`Copy ${props.label}`} onClick={copy}>
        Copy
      </button>
    </span>
  );
}

/** Names and values beside each other. Rows without a value are left out. */
export function Facts(props: { rows: readonly (readonly [name: string, value: ReactNode] | false | null)[] }) {
  return (
    <dl className="facts">
      {props.rows.map((row) =>
        row ? (
          <div key={row[0]}>
            <dt>{row[0]}</dt>
            <dd>{row[1] ?? <span className="none">–</span>}</dd>
          </div>
        ) : null,
      )}
    </dl>
  );
}

const tones: Readonly<Record<string, 'good' | 'busy' | 'bad' | 'quiet'>> = {
  ...{ running: 'good', available: 'good', enabled: 'good', active: 'good', paid: 'good', delivered: 'good' },
  ...{ succeeded: 'good', completed: 'good', approved: 'good', ready: 'good' },
  ...{ failed: 'bad', past_due: 'bad', suspended: 'bad', declined: 'bad', lost: 'bad', rejected: 'bad', denied: 'bad' },
  ...{ created: 'busy', starting: 'busy', pausing: 'busy', resuming: 'busy', terminating: 'busy', pending: 'busy' },
  ...{ building: 'busy', pushing: 'busy', delivering: 'busy', retrying: 'busy', processing: 'busy', open: 'busy' },
};

/** A status in words; its colour only repeats them. */
export function Status(props: { status: string; detail?: string | null | undefined }) {
  return (
    <span className={`status status-${tones[props.status] ?? 'quiet'}`}>
      {props.status.replaceAll('_', ' ')}
      {props.detail ? <span className="status-detail"> · {props.detail.replaceAll('_', ' ')}</span> : null}
    </span>
  );
}
