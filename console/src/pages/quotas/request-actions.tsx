import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { quotaFields, quotaHelp, quotaLabels, requestedInputs } from '../../components/quota-amounts.tsx';
import { changes, type Request } from './request-columns.tsx';

const ReasonInput: OwnInput = ({ value, onChange, ...ids }) => (
  <textarea
    {...ids}
    rows={3}
    required
    maxLength={2000}
    value={value}
    onChange={(event) => onChange(event.target.value)}
  />
);

const form = {
  sections: [{ fields: ['reason', ...quotaFields] }] as const,
  labels: quotaLabels,
  help: {
    ...quotaHelp,
    reason: 'What you need it for. Root users of your account see it.',
    cpu_seconds_monthly: '0: not limited.',
    template_storage_gb: '0: not limited.',
  },
  inputs: { ...requestedInputs, reason: ReasonInput },
  changes,
};

export function NewRequest() {
  const notify = useNotice();
  return (
    <DialogButton label="Request a quota" isPrimary>
      {(close) => (
        <BodyForm
          {...form}
          operation="createQuotaRequest"
          submitLabel="Send the request"
          onDone={() => {
            close();
            notify('The root users of your account have your request');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

/** What a person may do with their own request until it is reviewed. */
export function OwnRequestActions({ request }: { request: Request }) {
  const path = { request_id: request.request_id };
  const withdraw = useChange('withdrawQuotaRequest', changes);
  const notify = useNotice();
  if (request.status !== 'pending') return null;
  return (
    <div className="row-actions">
      <Change request={request} />
      <ConfirmedButton
        label="Withdraw"
        object="your request"
        what="Nobody reviews it then. It stays in the list."
        run={() => withdraw.mutateAsync({ path })}
        onDone={() => notify('The request is withdrawn')}
      />
    </div>
  );
}

/** The API replaces the whole request, so all fields are sent. Without a limit, a required field is 0. */
function Change({ request }: { request: Request }) {
  const notify = useNotice();
  return (
    <DialogButton label="Change" title="Change your request">
      {(close) => (
        <BodyForm
          {...form}
          operation="updateQuotaRequest"
          path={{ request_id: request.request_id }}
          initial={{
            reason: request.reason,
            ...Object.fromEntries(quotaFields.map((field) => [field, request[field]])),
            cpu_seconds_monthly: request.cpu_seconds_monthly ?? 0,
            template_storage_gb: request.template_storage_gb ?? 0,
          }}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('The request is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}
