import type { DataOf } from '../../api/client.ts';
import { DialogButton } from '../../components/dialog-button.tsx';
import { ObjectLink } from '../../components/object-link.tsx';
import { UserName } from '../../components/user-name.tsx';
import { At, Copyable, Facts, Text } from '../../components/values.tsx';
import { Differences } from './differences.tsx';

type AuditEvent = DataOf<'listAuditEvents'>['events'][number];

export function EventDetails({ event }: { event: AuditEvent }) {
  return (
    <DialogButton label="Details" title={event.action} isWide>
      {() => (
        <Facts
          rows={[
            ['When', <At key="when" at={event.created_at} />],
            [
              'Who',
              event.actor_user_id === null ? (
                'A command of an operator'
              ) : (
                <UserName key="who" userId={event.actor_user_id} />
              ),
            ],
            event.actor_key_id !== null && ['With the API key', <code key="key">{event.actor_key_id}</code>],
            event.actor_session_id !== null && ['In the session', <code key="session">{event.actor_session_id}</code>],
            ['From', <Text key="from">{event.address}</Text>],
            ['Object', event.object_id === null ? null : <ObjectLink key="object" id={event.object_id} />],
            ['Account', event.account_id ?? 'The whole platform'],
            ['Request', <Copyable key="request" text={event.audited_request_id} label="Request id" />],
            ['Event', <Copyable key="event" text={event.event_id} label="Event id" />],
            ['Change', <Differences key="change" before={event.before} after={event.after} />],
          ]}
        />
      )}
    </DialogButton>
  );
}
