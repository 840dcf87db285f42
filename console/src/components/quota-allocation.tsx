import type { DataOf } from '../api/client.ts';
import { useChange, useRead } from '../api/queries.ts';
import { visibleText } from '../format/text.ts';
import { BodyForm } from './body-form.tsx';
import type { OwnInput } from './body-inputs.tsx';
import { ConfirmedButton } from './confirm.tsx';
import { DialogButton } from './dialog-button.tsx';
import { useNotice } from './notices.tsx';
import { quotaFields, quotaHelp, quotaInputs, quotaLabels } from './quota-amounts.tsx';

type Allocation = DataOf<'createQuotaAllocation'>;

const changes = ['listQuotaAllocations', 'getQuota'] as const;

const HolderInput: OwnInput = ({ value, onChange, ...ids }) => {
  const users = useRead('listUsers', { query: { limit: 100 } }).data?.users ?? [];
  return (
    <select {...ids} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">The account: all its users together</option>
      {users.map(({ user_id: id, display_name: name, email }) => (
        <option key={id} value={id}>
          {visibleText(name || email)}
        </option>
      ))}
    </select>
  );
};

/** @param props.userId the user who gets the quota. Absent: the person chooses */
export function NewAllocation({ userId }: { userId?: string }) {
  const notify = useNotice();
  return (
    <DialogButton label="New quota" isPrimary={userId === undefined}>
      {(close) => (
        <BodyForm
          operation="createQuotaAllocation"
          sections={[{ fields: userId === undefined ? ['user_id', ...quotaFields] : quotaFields }]}
          labels={{ ...quotaLabels, user_id: 'Of' }}
          help={{
            ...quotaHelp,
            user_id: 'It replaces the one of before. The newest 100 users; others get theirs on their pages.',
          }}
          inputs={{ ...quotaInputs, user_id: HolderInput }}
          fixed={userId === undefined ? {} : { user_id: userId }}
          changes={changes}
          submitLabel="Set the quota"
          onDone={() => {
            close();
            notify('The quota is set');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

/** @param props.object whose quota it is */
export function AllocationActions({ allocation, object }: { allocation: Allocation; object: string }) {
  const path = { allocation_id: allocation.allocation_id };
  const revoke = useChange('revokeQuotaAllocation', changes);
  const remove = useChange('deleteQuotaAllocation', changes);
  const notify = useNotice();
  const isActive = allocation.status === 'active';
  return (
    <div className="row-actions">
      {isActive && <Edit allocation={allocation} object={object} />}
      {isActive && (
        <ConfirmedButton
          label="Revoke"
          object={object}
          what="It limits nobody any more. The limits of the plan still apply. It stays in the list."
          run={() => revoke.mutateAsync({ path })}
          onDone={() => notify('The quota is revoked')}
        />
      )}
      <ConfirmedButton
        label="Delete"
        object={object}
        what={isActive ? 'It limits nobody any more, and leaves the list.' : 'It leaves the list.'}
        run={() => remove.mutateAsync({ path })}
        onDone={() => notify('The quota is deleted')}
      />
    </div>
  );
}

function Edit({ allocation, object }: { allocation: Allocation; object: string }) {
  const notify = useNotice();
  return (
    <DialogButton label="Change" title={`Change ${object}`}>
      {(close) => (
        <BodyForm
          operation="updateQuotaAllocation"
          path={{ allocation_id: allocation.allocation_id }}
          sections={[{ fields: quotaFields }]}
          labels={quotaLabels}
          help={quotaHelp}
          inputs={quotaInputs}
          initial={Object.fromEntries(quotaFields.map((field) => [field, allocation[field]]))}
          sendsChangesOnly
          changes={changes}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('The quota is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}
