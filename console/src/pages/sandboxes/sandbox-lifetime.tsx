import { useChange, useRead } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { Ago, At, Facts } from '../../components/values.tsx';

import { formatDuration, formatTime } from '../../format/time.ts';
import { isOver, type Sandbox } from './sandbox-words.ts';
import { SecondsInput } from './seconds-input.tsx';
import { sandboxReads } from './use-sandbox.ts';

/** How long it lasts, and what can make it last longer. */
export function Lifetime({ sandbox }: { sandbox: Sandbox }) {
  const { status, auto_pause, timeout, timeout_at, persistence_days: days } = sandbox;
  return (
    <Section title="Lifetime" actions={!isOver(status) && <SetTimeout sandbox={sandbox} />}>
      {status === 'running' && <Extend sandbox={sandbox} />}
      <Facts
        rows={[
          timeout_at !== null && [auto_pause ? 'Pauses' : 'Ends', <When key="timeout" at={timeout_at} />],
          ['Timeout', `${formatDuration(timeout)} from when it runs`],
          ['At the timeout', auto_pause ? 'It pauses, and its disk is kept' : 'It ends, and its disk is removed'],
          sandbox.persistence_expires_at !== null && [
            'Kept paused until',
            <When key="kept" at={sandbox.persistence_expires_at} />,
          ],
          sandbox.persistence_expires_at === null &&
            days !== null &&
            !isOver(status) && ['Kept when paused', `for ${formatDuration(days * 86_400)}`],
          ['First ran', <At key="started" at={sandbox.started_at} />],
          sandbox.resumed_at !== null && ['Last resumed', <At key="resumed" at={sandbox.resumed_at} />],
          sandbox.paused_at !== null && ['Paused', <At key="paused" at={sandbox.paused_at} />],
          sandbox.ended_at !== null && ['Ended', <At key="ended" at={sandbox.ended_at} />],
        ]}
      />
    </Section>
  );
}

function When({ at }: { at: string }) {
  return (
    <>
      <Ago at={at} /> (<At at={at} />)
    </>
  );
}

const steps = [900, 3600, 86_400];

function Extend({ sandbox }: { sandbox: Sandbox }) {
  const change = useChange('setSandboxTimeout', sandboxReads);
  const notify = useNotice();
  const extend = (seconds: number) =>
    change.mutate(
      { path: { sandbox_id: sandbox.sandbox_id }, body: { timeout: sandbox.timeout + seconds } },
      {
        onSuccess: ({ timeout_at: at }) => notify(at ? `It lasts until ${formatTime(at)}` : 'Its timeout is longer'),
        onError: (error) => notify(error.message),
      },
    );
  return (
    <fieldset className="page-actions plain" aria-label="Extend">
      {steps.map((seconds) => (
        <button key={seconds} type="button" disabled={change.isPending} onClick={() => extend(seconds)}>
          Extend by {formatDuration(seconds)}
        </button>
      ))}
    </fieldset>
  );
}

function SetTimeout({ sandbox }: { sandbox: Sandbox }) {
  const { sandbox_id, status, started_at, resumed_at } = sandbox;
  const plan = useRead('getSubscription').data?.subscription.plan;
  const notify = useNotice();
  const since = resumed_at ?? started_at;
  return (
    <DialogButton label="Set timeout">
      {(close) => (
        <BodyForm
          operation="setSandboxTimeout"
          path={{ sandbox_id }}
          sections={[{ fields: ['timeout'] }]}
          labels={{ timeout: 'Timeout in seconds' }}
          help={{
            timeout: [
              status === 'running' && since !== null
                ? `Counts from ${formatTime(since)}, when it began to run. It may be longer or shorter than now.`
                : 'Counts from when it runs again.',
              plan && `Your plan allows ${formatDuration(plan.max_sandbox_timeout_seconds)}.`,
            ]
              .filter(Boolean)
              .join(' '),
          }}
          inputs={{ timeout: SecondsInput }}
          initial={{ timeout: sandbox.timeout }}
          changes={sandboxReads}
          submitLabel="Set"
          onDone={({ note }) => {
            close();
            notify(note);
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}
