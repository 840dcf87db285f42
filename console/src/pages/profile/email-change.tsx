import { useChange, useRead } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';

/** Links are opened elsewhere, and no event tells of it. */
const everyMs = 10_000;

const states = {
  none_confirmed: 'Neither address has confirmed it yet.',
  partial_confirmed: 'One address has confirmed it, the other has not yet.',
  both_confirmed: 'Both addresses have confirmed it.',
};

/** The change of the account's e-mail, which both addresses must confirm. */
export function EmailChange({ currentEmail }: { currentEmail: string }) {
  const read = useRead('getEmailChangeStatus', {}, { everyMs });
  return (
    <Section title="E-mail of the account">
      <p className="soft">
        The old and the new address each get a link, which works for 30 minutes. A user with the old address gets the
        new one, too. Another change must wait for 30 minutes.
      </p>
      <Loaded read={read}>
        {({ has_pending_request: isPending, status }) => (
          <>
            {isPending && <p className="note">A change waits to be confirmed. {states[status]}</p>}
            {!isPending && status === 'both_confirmed' && <p>The last change is completed.</p>}
            <div className="page-actions">{isPending ? <Cancel /> : <RequestChange currentEmail={currentEmail} />}</div>
          </>
        )}
      </Loaded>
    </Section>
  );
}

function RequestChange({ currentEmail }: { currentEmail: string }) {
  const notify = useNotice();
  return (
    <DialogButton label="Change the e-mail" title="Change the e-mail of the account">
      {(close) => (
        <BodyForm
          operation="requestEmailChange"
          sections={[{ fields: ['new_email'] }]}
          labels={{ new_email: 'New e-mail' }}
          help={{ new_email: 'Both addresses get a link to confirm it.' }}
          fixed={{ current_email: currentEmail }}
          changes={['getEmailChangeStatus']}
          submitLabel="Send the links"
          onDone={() => {
            close();
            notify('Links are sent to both addresses');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

function Cancel() {
  const clear = useChange('clearEmailChangeRequests', ['getEmailChangeStatus']);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Cancel"
      object="the change"
      what="The links that were sent no longer work. The wait before another change does not become shorter."
      run={() => clear.mutateAsync({})}
      onDone={() => notify('The change is cancelled')}
    />
  );
}
