import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { CostsByDay, CostsByKind } from '../../components/costs.tsx';
import { Figure } from '../../components/figure.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { Ago, At, Facts, Status, Text } from '../../components/values.tsx';
import { formatCount, formatMoney } from '../../format/numbers.ts';
import { useHasProcessor } from './payment-processor.tsx';
import { Periods } from './periods.tsx';

/** What the running period costs so far, and the periods before. */
export function CurrentPeriod() {
  const read = useRead('getCurrentBilling');
  return (
    <>
      <Loaded read={read}>{(snapshot) => <Snapshot snapshot={snapshot} />}</Loaded>
      {useHasProcessor() && <LastPayment />}
      <Periods />
    </>
  );
}

function Snapshot({ snapshot }: { snapshot: DataOf<'getCurrentBilling'> }) {
  const { current_period: period, currency, subscription_fee: fee } = snapshot;
  const money = (amount: number) => formatMoney(amount, currency);
  const costs = snapshot.cost_breakdown.map(({ resource_type, cost, percentage }) => ({
    ...{ kind: resource_type, cost, percentage },
  }));
  return (
    <>
      <div className="figures">
        <Figure label="Cost of this period so far, before tax" value={money(snapshot.current_cost)} />
        <Figure label="At its end, if usage goes on like this" value={money(snapshot.projected_cost)} />
        <Figure label="Of the cost so far, for the plan" value={money(fee.final)} />
        <Figure label="The period ends" value={<Ago at={period.end} />} />
      </div>
      <div className="columns">
        <Section
          title="This period"
          actions={
            <Link to="/usage" search={{ span: 'period' }}>
              Usage
            </Link>
          }
        >
          <Facts
            rows={[
              ['Began', <At key="start" at={period.start} />],
              ['Ends', <At key="end" at={period.end} />],
              ['Plan', <Text key="plan">{fee.plan_name}</Text>],
              ['Price of the plan', money(fee.standard)],
              fee.credit !== 0 && ['For the unused time of the plan before', money(-fee.credit)],
              [
                'Sandboxes',
                `${formatCount(snapshot.active_sessions)} active, ${formatCount(snapshot.completed_sessions)} ended`,
              ],
            ]}
          />
          <p className="soft">
            Usage is paid when the period has ended. A free plan includes it: it is shown at its prices, and not
            charged.
          </p>
        </Section>
        <Section title="Usage by kind">
          <CostsByKind costs={costs} currency={currency} />
        </Section>
      </div>
      <Section title="Usage by day">
        <CostsByDay
          start={period.start}
          end={new Date().toISOString()}
          costs={snapshot.daily_trend}
          currency={currency}
        />
      </Section>
    </>
  );
}

/** The payment that was due when this period began. It paid for the period before. */
function LastPayment() {
  const read = useRead('getSubscriptionPaymentByPeriod');
  return (
    <Section title="Payment for the period before">
      <Loaded read={read}>
        {(payment) =>
          payment === null ? (
            <p className="soft">None was due when this period began.</p>
          ) : (
            <Facts
              rows={[
                ['Status', <Status key="status" status={payment.payment_status} />],
                [
                  'Invoice',
                  <Link key="invoice" to="/billing/invoices/$invoiceId" params={{ invoiceId: payment.payment_id }}>
                    {payment.payment_id}
                  </Link>,
                ],
                [
                  'Period',
                  <>
                    <At at={payment.period_start} /> to <At at={payment.period_end} />
                  </>,
                ],
                ['Paid', <At key="paid" at={payment.paid_at} />],
              ]}
            />
          )
        }
      </Loaded>
    </Section>
  );
}
