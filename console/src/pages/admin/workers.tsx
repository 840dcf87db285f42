import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { Ago, Facts, Status, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { formatDuration } from '../../format/time.ts';

type Queue = DataOf<'getWorkers'>['task_queues'][number];
type Versions = DataOf<'getWorkers'>['worker_versions'];

const readEveryMs = 15_000;

const works: Readonly<Record<Queue['work'], string>> = {
  sandboxes: 'Sandboxes',
  webhooks: 'Webhooks',
  images: 'Images: imports, builds, removals',
  money: 'Money: invoices, charges',
  upkeep: 'Upkeep: users, mails, maintenance',
};

/** How long work waits for the control workers, and their versions, for operators. */
export function Page() {
  const read = useRead('getWorkers', {}, { everyMs: readEveryMs });
  return (
    <PageBody title="Workers">
      <Loaded read={read}>
        {({ platform_version: release, task_queues: queues, worker_versions: versions }) => (
          <>
            <Section title="Waiting work">
              <Queues queues={queues} />
              <p className="soft">
                Work of each kind has its own queue. A task that waits for long needs another control worker, or
                something outside that answers: a registry, the payment processor, a mail server.
              </p>
            </Section>
            <Section title="Versions of the control workers">
              <Facts rows={[['Release of the API', <Text key="release">{release}</Text>]]} />
              <WorkerVersions versions={versions} />
            </Section>
          </>
        )}
      </Loaded>
    </PageBody>
  );
}

function Queues({ queues }: { queues: readonly Queue[] }) {
  return (
    <div className="table-frame">
      <table>
        <caption className="hidden">Task queues of the control workers</caption>
        <thead>
          <tr>
            <th scope="col">Work</th>
            <th scope="col">Queue</th>
            <th scope="col">Tasks</th>
            <th scope="col" className="number">
              The oldest waits
            </th>
            <th scope="col" className="number">
              Workers that ask for them
            </th>
          </tr>
        </thead>
        <tbody>
          {queues.map((queue) => (
            <tr key={`${queue.task_queue} ${queue.kind}`}>
              <td data-label="Work">{works[queue.work]}</td>
              <td data-label="Queue">
                <code>{queue.task_queue}</code>
              </td>
              <td data-label="Tasks">{queue.kind === 'workflow' ? 'of workflows' : 'of activities'}</td>
              <td data-label="The oldest waits" className="number">
                {queue.oldest_task_seconds === 0 ? 'None waits' : formatDuration(Math.ceil(queue.oldest_task_seconds))}
              </td>
              <td data-label="Workers that ask for them" className="number">
                {queue.pollers === 0 ? <strong>None</strong> : formatCount(queue.pollers)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const meanings: Readonly<Record<NonNullable<Versions>[number]['status'], string>> = {
  current: 'New workflows run on it',
  draining: 'Workflows that are pinned to it are open',
  drained: 'Its workers may be stopped',
  inactive: 'It has never been current',
};

function WorkerVersions({ versions }: { versions: Versions }) {
  if (versions === null) return <p className="soft">The workers have no versions (PLATFORM_WORKER_DEPLOYMENT).</p>;
  return (
    <div className="table-frame">
      <table>
        <caption className="hidden">Versions of the control workers, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Version</th>
            <th scope="col">Status</th>
            <th scope="col" className="number">
              Workflows pinned to it
            </th>
            <th scope="col">Current since</th>
          </tr>
        </thead>
        <tbody>
          {versions.map((version) => (
            <tr key={version.build_id}>
              <td data-label="Version">
                <Text>{version.build_id}</Text>
              </td>
              <td data-label="Status">
                <Status status={version.status} /> {meanings[version.status]}
              </td>
              <td data-label="Workflows pinned to it" className="number">
                {formatCount(version.pinned_workflows)}
              </td>
              <td data-label="Current since">
                <Ago at={version.current_since} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
