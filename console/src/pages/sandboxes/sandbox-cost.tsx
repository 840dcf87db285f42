import { Link } from '@tanstack/react-router';
import { useRead } from '../../api/queries.ts';
import { Figure } from '../../components/figure.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { formatQuantity, usageKinds } from '../../components/usage-kinds.ts';
import { Facts } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';
import type { Sandbox } from './sandbox-words.ts';

const everyMs = 60_000;

const useCost = (sandbox: Sandbox) =>
  useRead(
    'getSandboxCost',
    { path: { sandbox_id: sandbox.sandbox_id } },
    sandbox.status === 'running' ? { everyMs } : {},
  );

/** What the sandbox has cost so far. A platform may charge nothing. */
export function CostFigure({ sandbox }: { sandbox: Sandbox }) {
  const { data } = useCost(sandbox);
  if (data?.amount === null) return null;
  return <Figure label="Cost so far, before tax" value={data ? formatMoney(data.amount, data.currency) : '…'} />;
}

/** What the sandbox has used so far. */
export function Usage({ sandbox }: { sandbox: Sandbox }) {
  return (
    <Section title="Usage so far" actions={<Link to="/usage">Usage</Link>}>
      <Loaded read={useCost(sandbox)}>
        {(cost) => (
          <Facts
            rows={[
              [usageKinds.cpu_seconds, formatQuantity(cost.cpu_seconds, 'cpu_seconds')],
              [usageKinds.ram_gb_seconds, formatQuantity(cost.ram_gb_seconds, 'gb_seconds')],
              ['Disk', formatQuantity(cost.sandbox_storage_gb_seconds, 'gb_seconds')],
              [usageKinds.traffic_gb, formatQuantity(cost.traffic_gb, 'gb')],
              [usageKinds.cpu_seconds_used, formatQuantity(cost.cpu_seconds_used, 'cpu_seconds')],
              [usageKinds.ram_gb_seconds_used, formatQuantity(cost.ram_gb_seconds_used, 'gb_seconds')],
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}
