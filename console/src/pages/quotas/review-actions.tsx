import type { ReactNode } from 'react';
import { BodyForm } from '../../components/body-form.tsx';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { QuotaLimits } from '../../components/quota-amounts.tsx';
import { UserName } from '../../components/user-name.tsx';
import { Facts, Text } from '../../components/values.tsx';
import { changes, type Request } from './request-columns.tsx';

const NoteInput: OwnInput = ({ value, onChange, ...ids }) => (
  <textarea {...ids} rows={3} maxLength={2000} value={value} onChange={(event) => onChange(event.target.value)} />
);
/** A person who is refused learns why. */
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

export function ReviewActions({ request }: { request: Request }) {
  if (request.status !== 'pending') return null;
  return (
    <div className="row-actions">
      <Review request={request} action="approve" label="Approve" noteLabel="Note for the user" input={NoteInput}>
        The user gets exactly this quota, instead of the one of before. To give other amounts, change the quota
        afterwards.
      </Review>
      <Review request={request} action="deny" label="Reject" noteLabel="Reason (required)" input={ReasonInput}>
        The quota of the user stays as it is.
      </Review>
    </div>
  );
}

function Review(props: {
  request: Request;
  action: 'approve' | 'deny';
  label: string;
  noteLabel: string;
  input: OwnInput;
  /** What it does. */
  children: ReactNode;
}) {
  const { request, action, label } = props;
  const notify = useNotice();
  return (
    <DialogButton label={label} title={`${label} a quota request`}>
      {(close) => (
        <>
          <Facts
            rows={[
              ['User', <UserName key="user" userId={request.user_id} />],
              ['Requested', <QuotaLimits key="quota" quota={request} />],
              ['Reason', <Text key="reason">{request.reason}</Text>],
            ]}
          />
          <p>{props.children}</p>
          <BodyForm
            operation="reviewQuotaRequest"
            path={{ request_id: request.request_id }}
            sections={[{ fields: ['review_notes'] }]}
            labels={{ review_notes: props.noteLabel }}
            help={{ review_notes: 'The user sees it with the decision.' }}
            inputs={{ review_notes: props.input }}
            fixed={{ action }}
            changes={[...changes, 'listQuotaAllocations', 'getQuota']}
            submitLabel={label}
            onDone={() => {
              close();
              notify(
                action === 'approve' ? 'The request is approved, and the quota is set' : 'The request is rejected',
              );
            }}
            onCancel={close}
          />
        </>
      )}
    </DialogButton>
  );
}
