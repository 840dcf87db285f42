import { Section } from '../../components/page.tsx';
import { Text } from '../../components/values.tsx';
import { formatMoney, formatNumber, formatPrice } from '../../format/numbers.ts';
import type { Invoice } from './invoice-statuses.ts';

/** Amounts have fewer digits than this. What is left of a difference is no money. */
const exactDigits = 1e6;

/** The lines of an invoice and what they add up to. */
export function InvoiceLines({ invoice }: { invoice: Invoice }) {
  const { currency, line_items: lines } = invoice;
  const rest = Math.round((invoice.total_amount - invoice.paid_from_balance) * exactDigits) / exactDigits;
  const sums: readonly (readonly [label: string, amount: number])[] = [
    ['Before tax', invoice.subtotal],
    ['Tax', invoice.tax_amount],
    ['Total', invoice.total_amount],
    ['Paid from the balance', invoice.paid_from_balance],
    [invoice.status === 'paid' ? 'Charged' : 'Left to charge', rest],
  ];
  return (
    <Section title="Lines">
      <div className="table-frame">
        <table>
          <caption className="hidden">Lines of the invoice</caption>
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col">Kind</th>
              <th scope="col" className="number">
                Quantity
              </th>
              <th scope="col" className="number">
                Price of one
              </th>
              <th scope="col" className="number">
                Amount
              </th>
            </tr>
          </thead>
          <tbody>
            {lines.map((line, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines have no names and keep their order
              <tr key={index}>
                <td data-label="What">
                  <Text>{line.description}</Text>
                </td>
                <td data-label="Kind">{line.type === 'usage' ? 'Usage' : line.amount < 0 ? 'Deduction' : 'Plan'}</td>
                <td data-label="Quantity" className="number">
                  {formatNumber(line.quantity)}
                </td>
                <td data-label="Price of one" className="number">
                  {formatPrice(line.unit_price, currency)}
                </td>
                <td data-label="Amount" className="number">
                  {formatMoney(line.amount, currency)}
                </td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            {sums.map(([label, amount]) => (
              <tr key={label}>
                <td colSpan={4} className="number">
                  {label}
                </td>
                <td className="number">{formatMoney(amount, currency)}</td>
              </tr>
            ))}
          </tfoot>
        </table>
      </div>
      <p className="soft">
        A plan has a line for its price. Each price of each kind of usage has a line; usage that a free plan includes is
        deducted in another one. A change of the plan charges the new price for the rest of the period and deducts the
        unused time of the plan before. Each line is rounded once, and the tax is on their sum. Usage that was recorded
        after the invoice of its period is on a later one, in lines that name the period.
      </p>
    </Section>
  );
}
