import { type InfiniteData, useInfiniteQuery } from '@tanstack/react-query';
import { type ApiError, call, type DataOf } from '../../api/client.ts';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { At, Status } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { formatDuration } from '../../format/time.ts';
import { describeReason, isOver, type Sandbox } from './sandbox-words.ts';

type Page = DataOf<'listSandboxEvents'>;
type Event = Page['events'][number];

/** The life of the sandbox, newest first, with how long each status lasted. */
export function Timeline({ sandbox }: { sandbox: Sandbox }) {
  const path = { sandbox_id: sandbox.sandbox_id };
  const read = useInfiniteQuery<Page, ApiError, InfiniteData<Page>, readonly unknown[], string | null>({
    queryKey: ['listSandboxEvents', path, 'timeline'],
    queryFn: ({ pageParam: cursor, signal }) =>
      call('listSandboxEvents', { path, query: { limit: 100, ...(cursor !== null && { cursor }) } }, signal),
    initialPageParam: null,
    getNextPageParam: ({ pagination }) => pagination.next_cursor,
  });
  return (
    <Section title="Timeline">
      <Loaded read={read}>
        {({ pages }) => {
          const events = pages.flatMap((page) => page.events);
          if (events.length === 0) {
            return <Empty>Its events are no longer kept. The platform keeps them for some time only.</Empty>;
          }
          return (
            <ol className="timeline" reversed>
              {events.map((event, index) => (
                <Entry key={event.event_id} event={event} endedAt={events[index - 1]?.created_at ?? null} />
              ))}
            </ol>
          );
        }}
      </Loaded>
      {read.hasNextPage && (
        <p>
          <button type="button" disabled={read.isFetchingNextPage} onClick={() => read.fetchNextPage()}>
            {read.isFetchingNextPage ? 'Loading …' : 'Show older ones'}
          </button>
        </p>
      )}
    </Section>
  );
}

const names: Readonly<Record<string, string>> = {
  'sandbox.created': 'Admitted',
  'sandbox.started': 'Runs for the first time',
  'sandbox.paused': 'Paused',
  'sandbox.resumed': 'Runs again',
  'sandbox.restarted': 'Runs again after a restart',
  'sandbox.stopped': 'Its processes have ended',
  'sandbox.terminated': 'Ended',
  'sandbox.failed': 'Failed',
  'sandbox.project_switched': 'Moved to another project',
};

/** @param props.endedAt when the next event came. Null: it is the newest */
function Entry({ event, endedAt }: { event: Event; endedAt: string | null }) {
  const { type, status, reason, created_at } = event;
  const why = reason === 'user_requested' ? null : describeReason(reason);
  return (
    <li>
      <strong>{names[type] ?? visibleText(type)}</strong>
      <Status status={status} />
      <At at={created_at} />
      {why !== null && <span>{why}</span>}
      <span className="soft">{lasted(event, endedAt)}</span>
    </li>
  );
}

function lasted({ status, created_at }: Event, endedAt: string | null): string {
  if (isOver(status)) return '';
  if (endedAt === null) return 'until now';
  const seconds = (Date.parse(endedAt) - Date.parse(created_at)) / 1000;
  return seconds < 1 ? 'less than a second until the next event' : `${formatDuration(seconds)} until the next event`;
}
