import type { DataOf } from '../../api/client.ts';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { PageBody } from '../../components/page.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { notificationsEveryMs, useUnreadNotifications } from '../../components/unread-notifications.ts';
import { Ago, Status, Text } from '../../components/values.tsx';
import { AllActions, ChosenActions, RowActions } from './notification-actions.tsx';
import { NotificationDialog } from './notification-dialog.tsx';
import { notificationTypes } from './notification-types.ts';

type Item = DataOf<'listNotifications'>['notifications'][number];

const filters: readonly Filter[] = [
  {
    name: 'read',
    label: 'Status',
    options: [
      ['false', 'unread'],
      ['true', 'read'],
    ],
  },
  { name: 'type', label: 'About', options: Object.entries(notificationTypes) },
];

/** What the platform tells the person. `?notification=` shows one of them. */
export function Page() {
  const [search, change] = usePageSearch();
  const unread = useUnreadNotifications();
  const columns: readonly Column<Item>[] = [
    {
      label: 'Notification',
      cell: (item) => (
        <button type="button" className="link" onClick={() => change({ notification: item.id })}>
          {item.is_read ? (
            <Text>{item.title}</Text>
          ) : (
            <strong>
              <Text>{item.title}</Text>
            </strong>
          )}
        </button>
      ),
    },
    { label: 'Status', cell: (item) => <Status status={item.is_read ? 'read' : 'unread'} /> },
    { label: 'About', cell: (item) => <Text>{item.category}</Text> },
    { label: 'When', cell: (item) => <Ago at={item.created_at} /> },
    { label: 'Actions', cell: (item) => <RowActions item={item} /> },
  ];
  return (
    <PageBody title="Notifications" actions={<AllActions hasUnread={unread !== 0} />}>
      <List
        operation="listNotifications"
        caption="Notifications"
        items={(data) => data.notifications}
        keyOf={(item) => item.id}
        columns={columns}
        filters={filters}
        everyMs={notificationsEveryMs}
        batch={(chosen, done) => <ChosenActions chosen={chosen} done={done} />}
        empty="You have no notifications. They are kept for 90 days."
      />
      {search.notification && (
        <NotificationDialog
          key={search.notification}
          id={search.notification}
          onClose={() => change({ notification: '' })}
        />
      )}
    </PageBody>
  );
}
