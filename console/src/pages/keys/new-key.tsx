import { useState } from 'react';
import type { DataOf } from '../../api/client.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Copyable, Facts } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { Snippets } from './snippets.tsx';

type Created = DataOf<'createApiKey'>;

/** Makes a key, and shows its secret once. It stands beside the list, not in it: a list that is read again would end it. */
export function NewKey() {
  const [state, setState] = useState<'closed' | 'form' | Created>('closed');
  const close = () => setState('closed');
  return (
    <>
      <button type="button" className="primary" onClick={() => setState('form')}>
        New key
      </button>
      {state === 'form' && (
        <Dialog title="New key" onClose={close}>
          <BodyForm
            operation="createApiKey"
            sections={[{ fields: ['name', 'description'] }]}
            help={{ name: 'Say what uses it, such as the name of a program. Unique among your keys.', description: '' }}
            changes={['listApiKeys']}
            submitLabel="Make the key"
            onDone={setState}
            onCancel={close}
          />
        </Dialog>
      )}
      {typeof state === 'object' && <CreatedKey created={state} onClose={close} />}
    </>
  );
}

/** The only time that the secret is shown, so the dialog does not close at the first try. */
function CreatedKey({ created, onClose }: { created: Created; onClose: () => void }) {
  const [isWarned, setWarned] = useState(false);
  const { name, api_key: apiKey = 'spk_…', e2b_api_key: e2bKey = 'e2b_…' } = created;
  return (
    <Dialog title={`Key ${visibleText(name)}`} isWide onClose={() => (isWarned ? onClose() : setWarned(true))}>
      <p className="note">Keep the key now, for example in a password manager. It cannot be shown again.</p>
      <Facts
        rows={[
          ['Key', <Copyable key="key" text={apiKey} label="Key" isSecret />],
          ['The same key, for the SDKs of E2B', <Copyable key="e2b" text={e2bKey} label="Key for E2B" isSecret />],
        ]}
      />
      <h3>Use it</h3>
      <Snippets apiKey={apiKey} e2bKey={e2bKey} />
      {isWarned && <p role="alert">The key cannot be shown again. Close again to leave.</p>}
      <footer className="dialog-footer">
        <button type="button" className="primary" onClick={onClose}>
          I have kept the key
        </button>
      </footer>
    </Dialog>
  );
}
