import { Link } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import type { DataOf } from '../../api/client.ts';
import { useChange, useRead } from '../../api/queries.ts';
import { useIsRoot } from '../../api/session.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { ObjectLink } from '../../components/object-link.tsx';
import { At, Facts, Text } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { DeleteOne, MarkOne } from './notification-actions.tsx';
import { changes } from './notification-types.ts';

/** One notification, which is read by opening it. */
export function NotificationDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const read = useRead('getNotification', { path: { notification_id: id } });
  const { mutate } = useChange('markNotificationRead', changes);
  const isMarked = useRef(false);
  const isUnread = read.data?.is_read === false;
  useEffect(() => {
    if (!isUnread || isMarked.current) return;
    isMarked.current = true;
    mutate({ path: { notification_id: id } });
  }, [isUnread, id, mutate]);
  return (
    <Dialog title={read.data ? visibleText(read.data.title) : 'Notification'} onClose={onClose}>
      <Loaded read={read}>
        {(notification) => (
          <>
            <p>
              <Text>{notification.message}</Text>
            </p>
            <Facts
              rows={[
                ['When', <At key="when" at={notification.created_at} />],
                notification.related_entity_id !== null && [
                  'About',
                  <Related key="about" type={notification.related_entity_type} id={notification.related_entity_id} />,
                ],
              ]}
            />
            <footer className="dialog-footer">
              {/* The dialog would mark it as read again. */}
              <MarkOne id={id} as="unread" onPress={onClose} />
              <DeleteOne id={id} title={notification.title} onDone={onClose} />
            </footer>
          </>
        )}
      </Loaded>
    </Dialog>
  );
}

/** The page of what a notification is about. */
function Related({ type, id }: { type: DataOf<'getNotification'>['related_entity_type']; id: string }) {
  const isRoot = useIsRoot();
  switch (type) {
    case 'quota_request':
      return (
        <Link to="/quotas" search={isRoot ? { part: 'requests' } : {}}>
          Quota requests
        </Link>
      );
    case 'quota_allocation':
      return <Link to="/quotas">Quotas</Link>;
    case 'budget':
      return (
        <Link to="/billing" search={{ part: 'budget' }}>
          Budget
        </Link>
      );
    default:
      return <ObjectLink id={id} />;
  }
}
