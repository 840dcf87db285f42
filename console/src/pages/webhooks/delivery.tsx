import type { DataOf } from '../../api/client.ts';
import { useChange, useRead } from '../../api/queries.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Ago, At, Copyable, Facts, Status, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';

type Delivery = DataOf<'getWebhookDelivery'>;

/** While an attempt runs or is near. No event tells of deliveries. */
const everyMs = 2000;
const hasEnded = ({ status }: Delivery) => status === 'delivered' || status === 'failed';

/** One delivery with each attempt, and what the address replied. */
export function DeliveryDialog(props: { endpointId: string; deliveryId: string; onClose: () => void }) {
  const path = { endpoint_id: props.endpointId, delivery_id: props.deliveryId };
  const read = useRead('getWebhookDelivery', { path }, { everyMs });
  return (
    <Dialog title="Delivery" isWide onClose={props.onClose}>
      <Loaded read={read}>
        {(delivery) => (
          <>
            <About delivery={delivery} />
            <h3>Attempts</h3>
            <Attempts delivery={delivery} />
            <footer className="dialog-footer">
              {hasEnded(delivery) ? (
                <Redeliver path={path} />
              ) : (
                <p className="soft">It can be sent again when it has ended.</p>
              )}
            </footer>
          </>
        )}
      </Loaded>
    </Dialog>
  );
}

function About({ delivery }: { delivery: Delivery }) {
  return (
    <Facts
      rows={[
        ['Event', <code key="type">{delivery.event_type}</code>],
        ['Event id', <Copyable key="event" text={delivery.event_id} label="Event id" />],
        ['Delivery id', <Copyable key="delivery" text={delivery.delivery_id} label="Delivery id" />],
        ['Status', <Status key="status" status={delivery.status} />],
        delivery.error_message !== null && ['Error', <Text key="error">{delivery.error_message}</Text>],
        ['Attempts', `${formatCount(delivery.attempt_number)} of ${formatCount(delivery.max_attempts)}`],
        delivery.next_retry_at !== null && ['Next attempt', <Ago key="next" at={delivery.next_retry_at} />],
        ['Made', <At key="made" at={delivery.created_at} />],
        delivery.delivered_at !== null && ['Delivered', <At key="delivered" at={delivery.delivered_at} />],
        delivery.failed_at !== null && ['Failed', <At key="failed" at={delivery.failed_at} />],
      ]}
    />
  );
}

function Attempts({ delivery: { attempts, attempt_number: ended } }: { delivery: Delivery }) {
  if (attempts.length === 0) return <Empty>No attempt has ended yet.</Empty>;
  return (
    <>
      {attempts.length < ended && <p className="soft">The latest {formatCount(attempts.length)}, oldest first.</p>}
      <ol className="timeline">
        {attempts.map((attempt) => (
          <li key={attempt.started_at}>
            <At at={attempt.started_at} />
            <Status
              status={attempt.error === null ? 'delivered' : 'failed'}
              detail={attempt.http_status_code === null ? 'no reply' : `status ${attempt.http_status_code}`}
            />
            <span>{formatCount(attempt.duration_ms)} ms</span>
            {attempt.error !== null && <Text>{attempt.error}</Text>}
            {attempt.reply && (
              <details>
                <summary>Reply</summary>
                <pre className="terminal-output">{visibleText(attempt.reply)}</pre>
              </details>
            )}
          </li>
        ))}
      </ol>
    </>
  );
}

function Redeliver(props: { path: { endpoint_id: string; delivery_id: string } }) {
  const redeliver = useChange('redeliverWebhookDelivery', [
    'getWebhookDelivery',
    'listWebhookDeliveries',
    'getWebhook',
  ]);
  const notify = useNotice();
  return (
    <button
      type="button"
      disabled={redeliver.isPending}
      onClick={() =>
        redeliver.mutate(
          { path: props.path },
          {
            onSuccess: () => notify('The event is sent again, with the same id'),
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      Send again
    </button>
  );
}
