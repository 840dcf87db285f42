import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { useNotice } from '../../components/notices.tsx';
import { formatCount } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { changes } from './notification-types.ts';

type Item = DataOf<'listNotifications'>['notifications'][number];

export function RowActions({ item }: { item: Item }) {
  return (
    <div className="row-actions">
      <MarkOne id={item.id} as={item.is_read ? 'unread' : 'read'} />
      <DeleteOne id={item.id} title={item.title} />
    </div>
  );
}

export function MarkOne(props: { id: string; as: 'read' | 'unread'; onPress?: () => void }) {
  const path = { notification_id: props.id };
  const markRead = useChange('markNotificationRead', changes);
  const markUnread = useChange('markNotificationUnread', changes);
  const notify = useNotice();
  const options = { onError: (error: Error) => notify(error.message) };
  return (
    <button
      type="button"
      disabled={markRead.isPending || markUnread.isPending}
      onClick={() => {
        props.onPress?.();
        if (props.as === 'read') markRead.mutate({ path }, options);
        else markUnread.mutate({ path }, options);
      }}
    >
      Mark as {props.as}
    </button>
  );
}

export function DeleteOne(props: { id: string; title: string; onDone?: () => void }) {
  const remove = useChange('deleteNotification', ['listNotifications']);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Delete"
      object={visibleText(props.title)}
      what="The notification is removed."
      run={() => remove.mutateAsync({ path: { notification_id: props.id } })}
      onDone={() => {
        notify('The notification is deleted');
        props.onDone?.();
      }}
    />
  );
}

/** What can be done with the chosen notifications. */
export function ChosenActions(props: { chosen: readonly string[]; done: () => void }) {
  const markRead = useChange('bulkMarkNotificationsRead', changes);
  const markUnread = useChange('bulkMarkNotificationsUnread', changes);
  const remove = useChange('bulkDeleteNotifications', changes);
  const notify = useNotice();
  const body = { notification_ids: [...props.chosen] };
  const finish = (text: string) => {
    notify(text);
    props.done();
  };
  const marking = (as: string) => ({
    onSuccess: ({ marked_count: count }: { marked_count: number }) => finish(`${formatCount(count)} marked as ${as}`),
    onError: (error: Error) => notify(error.message),
  });
  return (
    <>
      <button type="button" onClick={() => markRead.mutate({ body }, marking('read'))}>
        Mark as read
      </button>
      <button type="button" onClick={() => markUnread.mutate({ body }, marking('unread'))}>
        Mark as unread
      </button>
      <ConfirmedButton
        label="Delete"
        object={props.chosen.length === 1 ? 'one notification' : `${formatCount(props.chosen.length)} notifications`}
        what="They are removed."
        run={() => remove.mutateAsync({ body })}
        onDone={() => finish('Deleted')}
      />
    </>
  );
}

/** What can be done with all notifications, on all pages of the list. */
export function AllActions({ hasUnread }: { hasUnread: boolean }) {
  const mark = useChange('markAllNotificationsRead', changes);
  const remove = useChange('deleteAllNotifications', changes);
  const notify = useNotice();
  return (
    <>
      <button
        type="button"
        disabled={mark.isPending || !hasUnread}
        onClick={() =>
          mark.mutate(
            {},
            {
              onSuccess: ({ marked_count: count }) => notify(`${formatCount(count)} marked as read`),
              onError: (error) => notify(error.message),
            },
          )
        }
      >
        Mark all as read
      </button>
      <ConfirmedButton
        label="Delete all"
        object="notifications"
        what="All of them are removed, read and unread ones, also those that the filters hide."
        run={() => remove.mutateAsync({})}
        onDone={() => notify('All notifications are deleted')}
      />
    </>
  );
}
