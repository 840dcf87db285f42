import { Link } from '@tanstack/react-router';
import { useRead } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { AllocationActions, NewAllocation } from '../../components/quota-allocation.tsx';
import { QuotaMeters } from '../../components/quota-amounts.tsx';
import { At } from '../../components/values.tsx';

/** What limits one user beside the plan and the quota of the account, and what they have used in this month. */
export function UserQuota({ userId, name }: { userId: string; name: string }) {
  const read = useRead('listQuotaAllocations', { query: { limit: 100 } });
  const used = useUsed(userId);
  return (
    <Section title="Quota" actions={<NewAllocation userId={userId} />}>
      <Loaded read={read}>
        {({ allocations, pagination }) => {
          const quota = allocations.find((each) => each.user_id === userId) ?? null;
          const isKnown = quota !== null || pagination.total <= allocations.length;
          return (
            <>
              {!isKnown && (
                <p className="note">
                  It is not among the newest 100 quotas; <Link to="/quotas">see all</Link>.
                </p>
              )}
              {isKnown && quota === null && (
                <p className="soft">No quota of their own. The plan and the quota of the account still limit them.</p>
              )}
              <QuotaMeters quota={quota} used={used} />
              {quota && (
                <>
                  <p className="soft">
                    Set <At at={quota.created_at} />
                  </p>
                  <AllocationActions allocation={quota} object={`the quota of ${name}`} />
                </>
              )}
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

const hour = 3600;

/** Empty: nothing is recorded, or the user is of another account. */
function useUsed(userId: string) {
  const now = new Date();
  const start = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)).toISOString();
  const groups = useRead('getUsageSummary', { query: { start, group_by: 'user_id' } }).data?.groups;
  const used = groups?.find(({ value }) => value === userId);
  if (!used) return {};
  return {
    cpu_seconds_monthly: used.total_cpu_hours * hour,
    ram_gb_seconds: used.total_memory_gb_hours * hour,
    sandbox_storage_gb_seconds: used.total_storage_gb_hours * hour,
    traffic_gb_seconds: used.total_traffic_gb,
  };
}
