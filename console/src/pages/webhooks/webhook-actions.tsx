import { useNavigate } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { visibleText } from '../../format/text.ts';
import { RollKeys } from './roll-keys.tsx';
import { changes, help, inputs, labels, useMainFields } from './webhook-fields.tsx';

type Webhook = DataOf<'getWebhook'>;

export function WebhookActions({ webhook }: { webhook: Webhook }) {
  return (
    <>
      {webhook.is_active && <SendTest webhook={webhook} />}
      <Edit webhook={webhook} />
      <RollKeys webhook={webhook} />
      <SwitchWebhook webhook={webhook} />
      <Delete webhook={webhook} />
    </>
  );
}

/** Sends a test event, and shows its delivery. */
function SendTest({ webhook: { endpoint_id } }: { webhook: Webhook }) {
  const send = useChange('sendTestEvent', ['listWebhookDeliveries']);
  const notify = useNotice();
  const [, change] = usePageSearch();
  return (
    <button
      type="button"
      className="primary"
      disabled={send.isPending}
      onClick={() =>
        send.mutate(
          { path: { endpoint_id } },
          {
            onSuccess: ({ delivery_id }) => change({ delivery: delivery_id }),
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      Send a test event
    </button>
  );
}

function Edit({ webhook }: { webhook: Webhook }) {
  const { endpoint_id, url, event_types, description, scope, timeout_seconds, max_retries } = webhook;
  const fields = useMainFields();
  const notify = useNotice();
  return (
    <DialogButton label="Edit" title={`Edit ${visibleText(url)}`} isWide>
      {(close) => (
        <BodyForm
          operation="updateWebhook"
          path={{ endpoint_id }}
          sections={[{ fields: [...fields, 'timeout_seconds', 'max_retries'] }]}
          labels={labels}
          help={help}
          inputs={inputs}
          initial={{ url, event_types, description, scope, timeout_seconds, max_retries }}
          sendsChangesOnly
          changes={changes}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('The webhook is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

function SwitchWebhook({ webhook: { endpoint_id, url, is_active } }: { webhook: Webhook }) {
  const update = useChange('updateWebhook', changes);
  const notify = useNotice();
  const set = (isActive: boolean) => ({ path: { endpoint_id }, body: { is_active: isActive } });
  if (is_active) {
    return (
      <ConfirmedButton
        label="Disable"
        object={visibleText(url)}
        what="It gets no events until it is enabled again, and events of that time are not sent later. Deliveries end before their next attempt."
        run={() => update.mutateAsync(set(false))}
        onDone={() => notify('The webhook is disabled')}
      />
    );
  }
  return (
    <button
      type="button"
      disabled={update.isPending}
      onClick={() =>
        update.mutate(set(true), {
          onSuccess: () => notify('The webhook is enabled'),
          onError: (error) => notify(error.message),
        })
      }
    >
      Enable
    </button>
  );
}

function Delete({ webhook: { endpoint_id, url } }: { webhook: Webhook }) {
  const remove = useChange('deleteWebhook', ['listWebhooks']);
  const navigate = useNavigate();
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Delete"
      object={visibleText(url)}
      what="Its events are no longer sent, also those that wait for another attempt. Its deliveries are removed."
      run={() => remove.mutateAsync({ path: { endpoint_id } })}
      onDone={() => {
        notify('The webhook is deleted');
        void navigate({ to: '/webhooks' });
      }}
    />
  );
}
