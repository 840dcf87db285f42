import { useChange, useRead } from '../../api/queries.ts';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { At, Text } from '../../components/values.tsx';
import { AddCard } from './add-card.tsx';
import { type Card, nameOfCard } from './card-names.ts';
import { WithProcessor } from './payment-processor.tsx';

/** Changing cards can also pay what is due. */
const changes = ['listPaymentMethods', 'listInvoices', 'getInvoice', 'getSubscription', 'listPaymentIntents'] as const;

/** The cards of the account. */
export function Cards() {
  return (
    <WithProcessor without="There are no cards: this platform has no payment processor.">
      <Section title="Cards" actions={<AddCard />}>
        <p className="soft">
          The default card pays what the balance does not. The payment processor keeps the cards; the platform knows
          only what is shown here.
        </p>
        <CardTable />
      </Section>
    </WithProcessor>
  );
}

function CardTable() {
  const read = useRead('listPaymentMethods');
  return (
    <Loaded read={read}>
      {({ payment_methods: cards }) =>
        cards.length === 0 ? (
          <Empty>There are no cards yet. The first one becomes the default card.</Empty>
        ) : (
          <div className="table-frame">
            <table>
              <caption className="hidden">Cards</caption>
              <thead>
                <tr>
                  <th scope="col">Card</th>
                  <th scope="col">Expires</th>
                  <th scope="col">Name on it</th>
                  <th scope="col">Added</th>
                  <th scope="col">Actions</th>
                </tr>
              </thead>
              <tbody>
                {cards.map((card) => (
                  <tr key={card.id}>
                    <td data-label="Card">
                      {nameOfCard(card)}
                      {card.is_default && ' · default'}
                      {!card.is_verified && ' · not verified'}
                    </td>
                    <td data-label="Expires">
                      {card.exp_month === null ? '–' : `${String(card.exp_month).padStart(2, '0')}/${card.exp_year}`}
                    </td>
                    <td data-label="Name on it">
                      <Text>{card.billing_details.name}</Text>
                    </td>
                    <td data-label="Added">
                      <At at={card.created_at} />
                    </td>
                    <td data-label="Actions">
                      <div className="row-actions">
                        {!card.is_default && <MakeDefault card={card} />}
                        <Delete card={card} />
                      </div>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )
      }
    </Loaded>
  );
}

function MakeDefault({ card }: { card: Card }) {
  const change = useChange('setDefaultPaymentMethod', changes);
  const notify = useNotice();
  const name = nameOfCard(card);
  return (
    <ConfirmedButton
      label="Make default"
      object={name}
      what="Later charges go to this card. An invoice that is due is charged to it at once."
      run={() => change.mutateAsync({ body: { payment_method_id: card.id } })}
      onDone={() => notify(`The default card is ${name}`)}
    />
  );
}

function Delete({ card }: { card: Card }) {
  const remove = useChange('deletePaymentMethod', changes);
  const notify = useNotice();
  const name = nameOfCard(card);
  return (
    <ConfirmedButton
      label="Delete"
      object={name}
      what={
        card.is_default
          ? 'It is the default card. It is not charged again, and the newest of the other cards becomes the default.'
          : 'It is not charged again. To use it later, you add it anew.'
      }
      run={() => remove.mutateAsync({ path: { id: card.id } })}
      onDone={() => notify(`${name} is deleted`)}
    />
  );
}
