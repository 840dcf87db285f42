import { useState } from 'react';
import type { DataOf } from '../../api/client.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { useNotice } from '../../components/notices.tsx';
import { visibleText } from '../../format/text.ts';
import { KeepSecret } from './secret.tsx';
import { changes, inputs } from './webhook-fields.tsx';

/** New keys, so that old ones that others may know are worth nothing after a day. */
export function RollKeys({ webhook }: { webhook: DataOf<'getWebhook'> }) {
  const { endpoint_id, url, has_secret } = webhook;
  const [state, setState] = useState<'closed' | 'form' | { secret: string }>('closed');
  const notify = useNotice();
  const close = () => setState('closed');
  return (
    <>
      <button type="button" onClick={() => setState('form')}>
        New keys
      </button>
      {state === 'form' && (
        <Dialog title={`New keys of ${visibleText(url)}`} onClose={close}>
          <p>
            The public key changes at once{has_secret ? ', and so does the secret' : ''}. For 24 hours, each request is
            signed with the old and with the new ones.
          </p>
          <BodyForm
            operation="rollWebhookSecret"
            path={{ endpoint_id }}
            sections={[{ fields: ['secret'] }]}
            labels={{ secret: has_secret ? 'New secret (required)' : 'Secret' }}
            help={{
              secret: has_secret
                ? 'The receiver needs it within 24 hours.'
                : 'Not needed. With a secret, requests also have an HMAC.',
            }}
            inputs={inputs}
            changes={changes}
            submitLabel="Make new keys"
            onDone={(_, { secret }) => {
              notify('The webhook has new keys');
              setState(secret ? { secret } : 'closed');
            }}
            onCancel={close}
          />
        </Dialog>
      )}
      {typeof state === 'object' && <KeepSecret secret={state.secret} onClose={close} />}
    </>
  );
}
