import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { visibleText } from '../../format/text.ts';

type Item = DataOf<'listApiKeys'>['api_keys'][number];

export function KeyActions({ item }: { item: Item }) {
  return (
    <div className="row-actions">
      <Rename item={item} />
      <SwitchKey item={item} />
      <Delete item={item} />
    </div>
  );
}

function Rename({ item: { key_id, name, description } }: { item: Item }) {
  const notify = useNotice();
  return (
    <DialogButton label="Rename" title={`Rename ${visibleText(name)}`}>
      {(close) => (
        <BodyForm
          operation="updateApiKey"
          path={{ key_id }}
          sections={[{ fields: ['name', 'description'] }]}
          help={{ name: 'Unique among the keys of its owner. The key itself does not change.', description: '' }}
          initial={{ name, description }}
          sendsChangesOnly
          changes={['listApiKeys']}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('The key is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

function SwitchKey({ item: { key_id, name, is_active } }: { item: Item }) {
  const change = useChange('setApiKeyStatus', ['listApiKeys']);
  const notify = useNotice();
  const run = () =>
    change.mutate(
      { path: { key_id }, body: { is_active: !is_active } },
      {
        onSuccess: () => notify(`${visibleText(name)} is ${is_active ? 'disabled' : 'enabled'}`),
        onError: (error) => notify(error.message),
      },
    );
  return (
    <button
      type="button"
      aria-label={`${is_active ? 'Disable' : 'Enable'} ${visibleText(name)}`}
      disabled={change.isPending}
      onClick={run}
    >
      {is_active ? 'Disable' : 'Enable'}
    </button>
  );
}

function Delete({ item: { key_id, name } }: { item: Item }) {
  const remove = useChange('deleteApiKey', ['listApiKeys']);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Delete"
      object={visibleText(name)}
      what="Programs with this key are refused from their next request on. To refuse them for a while only, disable it."
      run={() => remove.mutateAsync({ path: { key_id } })}
      onDone={() => notify(`${visibleText(name)} is deleted`)}
    />
  );
}
