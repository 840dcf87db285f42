import { Link } from '@tanstack/react-router';
import { useLayoutEffect, useRef } from 'react';
import type { DataOf } from '../../api/client.ts';
import { useChange, useRead } from '../../api/queries.ts';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Problem } from '../../components/problem.tsx';
import { At, Copyable, Facts, Status, Text } from '../../components/values.tsx';
import { formatCount, formatPercent } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { useReadAgainWhile } from './read-again.ts';

type Job = DataOf<'getImportJob'>;

export const isOngoing = ({ status }: Pick<Job, 'status'>) => status === 'pending' || status === 'running';

/** An import by its id. */
export function ImportJob(props: { jobId: string }) {
  const read = useRead('getImportJob', { path: { job_id: props.jobId } });
  return <Loaded read={read}>{(job) => <ImportProgress job={job} />}</Loaded>;
}

/** How far an import is, what it has written, and how it can be stopped. */
export function ImportProgress({ job }: { job: Job }) {
  const { job_id, status } = job;
  useReadAgainWhile(isOngoing(job), 'getImportJob', 'getTemplateImport');
  return (
    <>
      <Progress job={job} />
      {job.error_message && (
        <div className="problem" role="status">
          <p>
            {isOngoing(job) ? 'The last try failed: ' : ''}
            {visibleText(job.error_message)}
          </p>
        </div>
      )}
      <Facts
        rows={[
          [
            'Template',
            <Link key={job_id} to="/templates/$templateId" params={{ templateId: job.template_id }}>
              {job.template_id}
            </Link>,
          ],
          ['From', <Text key={job_id}>{job.external_image_url}</Text>],
          ['To', <Text key={job_id}>{job.registry_image_url}</Text>],
          ['Asked for', <At key={job_id} at={job.created_at} />],
          ['Started', <At key={job_id} at={job.started_at} />],
          ['Ended', <At key={job_id} at={job.completed_at} />],
          ['Job', <Copyable key={job_id} text={job_id} label="Job id" />],
        ]}
      />
      <Log text={job.skopeo_logs} />
      <div className="row-actions">
        {isOngoing(job) && <CancelImport job={job} />}
        {(status === 'failed' || status === 'cancelled') && (
          <StartImport templateId={job.template_id} label="Import again" />
        )}
      </div>
    </>
  );
}

export function Progress({ job }: { job: Pick<Job, 'job_id' | 'status' | 'progress_percentage'> & Partial<Job> }) {
  const share = job.progress_percentage / 100;
  const retries = job.retry_count ?? 0;
  return (
    <div className="meter">
      <span>
        <Status status={job.status} /> {formatPercent(share)}
        {retries > 0 && ` · retry ${formatCount(retries)} of ${formatCount(job.max_retries ?? 0)}`}
      </span>
      <progress aria-label={`Progress of ${job.job_id}`} value={share} max={1} />
    </div>
  );
}

/** What the copying tool writes. The end stays in view while the reader is there. */
function Log(props: { text: string }) {
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: after each change of the text
  useLayoutEffect(() => {
    const element = box.current;
    if (element && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [props.text]);
  if (props.text === '') return null;
  return (
    <pre
      ref={box}
      className="terminal-output"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also with the keyboard
      tabIndex={0}
      role="log"
      aria-label="Log of the copy"
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        isAtEnd.current = scrollTop + clientHeight >= scrollHeight - 8;
      }}
    >
      {visibleText(props.text)}
    </pre>
  );
}

/** Operations whose replies the start or the end of an import makes old. */
const changes = ['getImportJob', 'listImportJobs', 'getTemplateImport', 'getTemplate', 'listTemplates'] as const;

function CancelImport({ job }: { job: Job }) {
  const cancel = useChange('cancelImportJob', changes);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Stop import"
      object={visibleText(job.external_image_url)}
      what="The copy stops. The template stays without an image, and can be imported again."
      run={() => cancel.mutateAsync({ path: { job_id: job.job_id } })}
      onDone={() => notify('The import is cancelled')}
    />
  );
}

export function StartImport(props: { templateId: string; label: string }) {
  const start = useChange('startTemplateImport', changes);
  const notify = useNotice();
  return (
    <>
      {start.error && <Problem error={start.error} />}
      <button
        type="button"
        disabled={start.isPending}
        onClick={() =>
          start.mutate({ path: { template_id: props.templateId } }, { onSuccess: ({ message }) => notify(message) })
        }
      >
        {props.label}
      </button>
    </>
  );
}
