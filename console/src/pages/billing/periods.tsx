import { Link } from '@tanstack/react-router';
import { useRead } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { Status, Text } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';

/** The running period and the last ones. */
export function Periods() {
  const read = useRead('listBillingPeriods');
  return (
    <Section title="Periods">
      <Loaded read={read}>
        {({ periods }) => (
          <div className="table-frame">
            <table>
              <caption className="hidden">Periods with their costs before tax</caption>
              <thead>
                <tr>
                  <th scope="col">Days (UTC)</th>
                  <th scope="col">Plan</th>
                  <th scope="col" className="number">
                    For the plan
                  </th>
                  <th scope="col" className="number">
                    For usage
                  </th>
                  <th scope="col" className="number">
                    Before tax
                  </th>
                  <th scope="col">Status</th>
                  <th scope="col">Invoice</th>
                </tr>
              </thead>
              <tbody>
                {periods.map((period) => (
                  <tr key={period.period_id}>
                    <td data-label="Days (UTC)">
                      {period.period_start} to {period.period_end}
                    </td>
                    <td data-label="Plan">
                      <Text>{period.plan}</Text>
                    </td>
                    <td data-label="For the plan" className="number">
                      {formatMoney(period.subscription_fee.final, period.currency)}
                    </td>
                    <td data-label="For usage" className="number">
                      {formatMoney(period.usage_cost.accumulated, period.currency)}
                      {period.is_current &&
                        ` so far, about ${formatMoney(period.usage_cost.projected, period.currency)} at its end`}
                    </td>
                    <td data-label="Before tax" className="number">
                      {formatMoney(period.total, period.currency)}
                    </td>
                    <td data-label="Status">
                      <Status status={period.is_current ? 'running' : period.status} />
                    </td>
                    <td data-label="Invoice">
                      {period.invoice_id === null ? (
                        'When it has ended'
                      ) : (
                        <Link to="/billing/invoices/$invoiceId" params={{ invoiceId: period.invoice_id }}>
                          {period.invoice_generated ? period.invoice_id : 'Draft'}
                        </Link>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
    </Section>
  );
}
