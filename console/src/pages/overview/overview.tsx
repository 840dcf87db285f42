import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useRead } from '../../api/queries.ts';
import { useIsRoot } from '../../api/session.ts';
import { Chart } from '../../components/chart.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { Meter } from '../../components/meter.tsx';
import { ObjectLink } from '../../components/object-link.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { Ago, Facts, Status, Text } from '../../components/values.tsx';
import { formatCount, formatMoney, formatNumber, formatPercent } from '../../format/numbers.ts';

/** What the person has, what it costs, and what happened last. */
export function Page() {
  return (
    <PageBody
      title="Overview"
      actions={
        <Link to="/sandboxes/new" className="button primary">
          New sandbox
        </Link>
      }
    >
      <Counts />
      <div className="columns">
        <div className="column">
          <NewestSandboxes />
          {useIsRoot() ? <Cost /> : <OwnUsage />}
        </div>
        <div className="column">
          <LatestEvents />
          <Limits />
        </div>
      </div>
    </PageBody>
  );
}

function Counts() {
  const stats = useRead('getSandboxStats');
  const paused = useRead('listSandboxes', { query: { status: 'paused', limit: 1 } }).data?.pagination;
  return (
    <Loaded read={stats}>
      {(data) => (
        <div className="figures">
          <Figure status="running" label="Running" value={formatCount(data.running_sandboxes)} />
          <Figure
            status="paused"
            label="Paused"
            value={paused ? `${formatCount(paused.total)}${paused.total_is_capped ? '+' : ''}` : '…'}
          />
          <Figure status="failed" label="Failed" value={formatCount(data.failed_sandboxes)} />
          <div className="figure">
            <span className="figure-value">
              {data.avg_cpu_usage === null ? '–' : formatPercent(data.avg_cpu_usage / 100)}
            </span>
            <span className="figure-label">CPU in use, last minute</span>
          </div>
          <div className="figure">
            <span className="figure-value">
              {data.avg_memory_usage === null ? '–' : formatPercent(data.avg_memory_usage / 100)}
            </span>
            <span className="figure-label">Memory in use, last minute</span>
          </div>
        </div>
      )}
    </Loaded>
  );
}

function Figure(props: { status: string; label: string; value: ReactNode }) {
  return (
    <Link to="/sandboxes" search={{ status: props.status }} className="figure">
      <span className="figure-value">{props.value}</span>
      <span className="figure-label">{props.label}</span>
    </Link>
  );
}

function Cost() {
  const read = useRead('getCurrentBilling');
  return (
    <Section title="Cost of this period" actions={<Link to="/billing">Billing</Link>}>
      <Loaded read={read}>
        {(data) => (
          <>
            <p>
              <strong>{formatMoney(data.current_cost, data.currency)}</strong> so far,{' '}
              {formatMoney(data.projected_cost, data.currency)} at the end if it goes on like this
            </p>
            {!data.is_billed && <p className="soft">Your account is not billed: you pay none of it.</p>}
            {data.daily_trend.length > 0 && (
              <Chart
                title="Usage at its prices, by day (UTC)"
                kind="bar"
                series={[{ name: 'Cost', points: data.daily_trend.map(({ date, cost }) => [date, cost] as const) }]}
                format={(value) => formatMoney(value, data.currency)}
              />
            )}
          </>
        )}
      </Loaded>
    </Section>
  );
}

/** What a user without rights on the account sees instead of its cost. */
function OwnUsage() {
  const read = useRead('getUsageSummary');
  return (
    <Section title="Your usage" actions={<Link to="/usage">Usage</Link>}>
      <Loaded read={read}>
        {({ summary }) => (
          <Facts
            rows={[
              ['CPU hours', formatNumber(summary.total_cpu_hours)],
              ['Memory, GB hours', formatNumber(summary.total_memory_gb_hours)],
              ['Storage, GB hours', formatNumber(summary.total_storage_gb_hours)],
              ['Traffic, GB', formatNumber(summary.total_traffic_gb)],
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}

function Limits() {
  const isRoot = useIsRoot();
  const quota = useRead('getQuota');
  return (
    <Section title="Limits" actions={<Link to="/quotas">Quotas</Link>}>
      {isRoot && <Budget />}
      <Loaded read={quota}>
        {({ quotas, used, account_quotas, account_used }) => (
          <>
            <Meter
              label="Your CPU hours of this month"
              used={used.cpu_seconds / 3600}
              limit={quotas?.cpu_seconds_monthly ? quotas.cpu_seconds_monthly / 3600 : null}
              format={formatNumber}
            />
            {account_quotas?.cpu_seconds_monthly && account_used ? (
              <Meter
                label="CPU hours of the account"
                used={account_used.cpu_seconds / 3600}
                limit={account_quotas.cpu_seconds_monthly / 3600}
                format={formatNumber}
              />
            ) : null}
          </>
        )}
      </Loaded>
    </Section>
  );
}

function Budget() {
  const read = useRead('getBudgetStatus');
  return (
    <Loaded read={read}>
      {(budget) =>
        budget ? (
          <Meter
            label={`Budget (${budget.limit_type})`}
            used={budget.amount_used}
            limit={budget.budget_amount}
            format={(value) => formatMoney(value, budget.currency)}
          />
        ) : (
          <p className="soft">
            No budget is set.{' '}
            <Link to="/billing" search={{ part: 'budget' }}>
              Set one
            </Link>
          </p>
        )
      }
    </Loaded>
  );
}

function NewestSandboxes() {
  const read = useRead('listSandboxes', { query: { limit: 8 } });
  return (
    <Section title="Newest sandboxes" actions={<Link to="/sandboxes">All</Link>}>
      <Loaded read={read}>
        {({ sandboxes }) =>
          sandboxes.length === 0 ? (
            <Empty>You have no sandboxes yet.</Empty>
          ) : (
            <table>
              <caption className="hidden">Newest sandboxes</caption>
              <tbody>
                {sandboxes.map((each) => (
                  <tr key={each.sandbox_id}>
                    <td>
                      <Link to="/sandboxes/$sandboxId" params={{ sandboxId: each.sandbox_id }}>
                        <Text>{each.name}</Text>
                      </Link>
                    </td>
                    <td>
                      <Status status={each.status} />
                    </td>
                    <td className="number">
                      <Ago at={each.created_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Loaded>
    </Section>
  );
}

function LatestEvents() {
  const read = useRead('listNewestEvents', { query: { limit: 8 } });
  return (
    <Section title="Latest events">
      <Loaded read={read}>
        {({ events }) =>
          events.length === 0 ? (
            <Empty>Nothing has happened in the last day.</Empty>
          ) : (
            <ul className="timeline">
              {events.map((event) => (
                <li key={event.event_id}>
                  <span>{event.type.replaceAll(/[._]/g, ' ')}</span>
                  <ObjectLink id={event.sandbox_id ?? event.object_id} />
                  <Ago at={event.created_at} />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  );
}
