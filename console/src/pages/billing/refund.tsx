import type { DataOf } from '../../api/client.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { formatMoney } from '../../format/numbers.ts';

export type Charge = DataOf<'getPaymentIntent'>;

export const isRefundable = ({ status, amount, amount_refunded }: Charge) =>
  status === 'succeeded' && amount_refunded < amount;

const outcomes: Readonly<Record<DataOf<'refundPaymentIntent'>['status'], string>> = {
  succeeded: 'is refunded',
  pending: 'is refunded when the bank has processed it',
  requested: 'is requested; the payment processor has not answered yet',
  failed: 'was not refunded',
};

/** For operators. */
export function Refund({ charge }: { charge: Charge }) {
  const notify = useNotice();
  const money = (amount: number) => formatMoney(amount, charge.currency);
  const { payment_intent_id: id, amount, amount_refunded: refunded } = charge;
  return (
    <DialogButton label="Refund" title={`Refund ${id} of ${money(amount)}`}>
      {(close) => (
        <>
          <p>
            {refunded > 0 ? `${money(refunded)} of it was refunded already. ` : ''}
            The money goes back to the card of {charge.account_id}. This cannot be undone.
          </p>
          <BodyForm
            operation="refundPaymentIntent"
            path={{ id }}
            sections={[{ fields: ['amount', 'description'] }]}
            labels={{ amount: `Amount (${charge.currency.toUpperCase()})` }}
            help={{ amount: 'Empty: all that is left of the charge', description: 'Why, for the records' }}
            changes={['listPaymentIntents', 'getPaymentIntent', 'listBalanceChanges']}
            submitLabel={`Refund ${id}`}
            onDone={(refund) => {
              close();
              notify(`${money(refund.amount)} of ${id} ${outcomes[refund.status]}`);
            }}
            onCancel={close}
          />
        </>
      )}
    </DialogButton>
  );
}
