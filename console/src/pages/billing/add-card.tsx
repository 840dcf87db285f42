import { useEffect } from 'react';
import { call, type DataOf } from '../../api/client.ts';
import { queryClient, useChange } from '../../api/queries.ts';
import { Dialog } from '../../components/dialog.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Ago, Copyable } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';

/** Makes a link to the page of the platform that adds a card, for this person or the one with the card. */
export function AddCard() {
  const make = useChange('linkToAddPaymentMethod', []);
  const notify = useNotice();
  const run = () => make.mutate({}, { onError: (error) => notify(error.message) });
  return (
    <>
      <button type="button" className="primary" disabled={make.isPending} onClick={run}>
        {make.isPending ? 'Working …' : 'Add a card'}
      </button>
      {make.data && (
        <Dialog title="Add a card" onClose={make.reset}>
          <CardLink link={make.data} onAdded={make.reset} />
        </Dialog>
      )}
    </>
  );
}

function CardLink({ link, onAdded }: { link: DataOf<'linkToAddPaymentMethod'>; onAdded: () => void }) {
  useCardAdded(link.setup_intent_id, onAdded);
  return (
    <>
      <p>
        The card is written on a page of the platform, which sends it to the payment processor. This dialog closes when
        the card is added.
      </p>
      <p>
        <a className="button primary" href={link.url} target="_blank" rel="noreferrer">
          Open the page for the card
        </a>
      </p>
      <p>
        Or send the link to the person with the card. It needs no sign-in, adds one card, and works for a while only.
      </p>
      <Copyable text={link.url} label="Link" isSecret />
      <p className="soft">
        The link ends <Ago at={link.expires_at} />, or when you sign out.
      </p>
    </>
  );
}

const askEveryMs = 5000;

/** Asks whether a card was added until it was. Notifications of the payment processor may come late, or never. */
function useCardAdded(setupIntentId: string, onAdded: () => void): void {
  const notify = useNotice();
  useEffect(() => {
    const ask = async () => {
      const { processed, method } = await call('checkPaymentMethod', { body: { setup_intent_id: setupIntentId } });
      if (!processed) return;
      window.clearInterval(timer);
      await queryClient.invalidateQueries({ queryKey: ['listPaymentMethods'] });
      notify(`${visibleText(`${method?.brand ?? 'The card'} ${method?.last4 ?? ''}`).trim()} is added`);
      onAdded();
    };
    // A question that fails is asked again.
    const timer = window.setInterval(() => void ask().catch(() => {}), askEveryMs);
    return () => window.clearInterval(timer);
  }, [setupIntentId, onAdded, notify]);
}
