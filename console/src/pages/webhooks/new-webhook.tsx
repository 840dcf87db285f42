import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { BodyForm } from '../../components/body-form.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { useNotice } from '../../components/notices.tsx';
import { KeepSecret } from './secret.tsx';
import { changes, help, inputs, labels, useMainFields } from './webhook-fields.tsx';

export function NewWebhook() {
  const [state, setState] = useState<'closed' | 'form' | { made: string; secret: string }>('closed');
  const fields = useMainFields();
  const navigate = useNavigate();
  const notify = useNotice();
  const close = () => setState('closed');
  const open = (endpointId: string) => {
    notify('The webhook is made');
    void navigate({ to: '/webhooks/$endpointId', params: { endpointId } });
  };
  return (
    <>
      <button type="button" className="primary" onClick={() => setState('form')}>
        New webhook
      </button>
      {state === 'form' && (
        <Dialog title="New webhook" isWide onClose={close}>
          <BodyForm
            operation="createWebhook"
            sections={[{ fields }, { title: 'More', fields: ['timeout_seconds', 'max_retries', 'secret'] }]}
            labels={labels}
            help={{
              ...help,
              timeout_seconds: `${help.timeout_seconds} 30 if empty.`,
              max_retries: `${help.max_retries} 3 if empty.`,
              secret:
                'Not needed: every request is signed with a key of this webhook. With a secret, it also has an HMAC.',
            }}
            inputs={inputs}
            initial={{ event_types: ['sandbox.*'] }}
            changes={changes}
            submitLabel="Make the webhook"
            onDone={({ endpoint_id: made }, { secret }) => (secret ? setState({ made, secret }) : open(made))}
            onCancel={close}
          />
        </Dialog>
      )}
      {typeof state === 'object' && <KeepSecret secret={state.secret} onClose={() => open(state.made)} />}
    </>
  );
}
