import { useRead } from '../../api/queries.ts';
import { CostsByDay, CostsByKind } from '../../components/costs.tsx';
import { Figure } from '../../components/figure.tsx';
import { Filters } from '../../components/list.tsx';
import { Loaded, Loading } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { type Span, useSpan } from '../../components/span.ts';
import { formatCount, formatMoney } from '../../format/numbers.ts';

/** The cost of usage in a time that the person chooses. */
export function History() {
  const { span, filters } = useSpan('30d');
  return (
    <>
      <p className="soft">Usage at its prices. A free plan includes it, and the price of a plan is not in it.</p>
      <Filters filters={filters} />
      {span === null ? <Loading /> : <Costs span={span} />}
    </>
  );
}

function Costs({ span }: { span: Span }) {
  const read = useRead('getBillingHistory', { query: span });
  // The history does not tell the currency. It is that of the plans.
  const subscription = useRead('getSubscription');
  return (
    <Loaded read={subscription}>
      {({ subscription: { plan } }) => (
        <Loaded read={read}>
          {({ period, total_cost, sessions, breakdown, daily_costs }) => (
            <>
              <div className="figures">
                <Figure label="Cost of usage" value={formatMoney(total_cost, plan.currency)} />
                <Figure
                  label={`Sandboxes: ${formatCount(sessions.active)} active, ${formatCount(sessions.completed)} ended, ${formatCount(sessions.failed)} failed`}
                  value={formatCount(sessions.total)}
                />
              </div>
              <Section title="By day">
                <CostsByDay {...period} costs={daily_costs} currency={plan.currency} />
              </Section>
              <Section title="By kind">
                <CostsByKind
                  costs={breakdown.map(({ resource_type, cost, percentage }) => ({
                    ...{ kind: resource_type, cost, percentage },
                  }))}
                  currency={plan.currency}
                />
              </Section>
            </>
          )}
        </Loaded>
      )}
    </Loaded>
  );
}
