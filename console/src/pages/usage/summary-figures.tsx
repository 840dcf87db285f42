import { Figure } from '../../components/figure.tsx';
import { formatCount, formatMoney, formatNumber } from '../../format/numbers.ts';
import { formatDuration } from '../../format/time.ts';
import type { Summary } from './measures.ts';

/** The sums of a report. */
export function SummaryFigures({ summary }: { summary: Summary }) {
  return (
    <div className="figures">
      <Figure
        label="Cost, before tax and what the plan includes"
        value={formatMoney(summary.total_cost, summary.currency)}
      />
      <Figure
        label={`Sandboxes that ran or were paused, ${formatCount(summary.active_sessions)} still do, ${formatCount(summary.failed_sessions)} failed`}
        value={formatCount(summary.total_sessions)}
      />
      <Figure label="Mean life of a sandbox" value={formatDuration(summary.avg_session_duration)} />
      <Figure label="CPU hours, reserved" value={formatNumber(summary.total_cpu_hours)} />
      <Figure label="Memory, GB hours, reserved" value={formatNumber(summary.total_memory_gb_hours)} />
      <Figure label="Traffic, GB" value={formatNumber(summary.total_traffic_gb)} />
    </div>
  );
}
