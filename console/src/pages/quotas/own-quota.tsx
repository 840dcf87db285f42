import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsRoot } from '../../api/session.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { QuotaMeters } from '../../components/quota-amounts.tsx';
import { TemplateStorage } from '../../components/template-storage.tsx';
import { At } from '../../components/values.tsx';
import { OwnRequests } from './own-requests.tsx';

type Used = DataOf<'getQuota'>['used'];

const byField = (used: Used) => ({
  cpu_seconds_monthly: used.cpu_seconds,
  ram_gb_seconds: used.ram_gb_seconds,
  sandbox_storage_gb_seconds: used.sandbox_storage_gb_seconds,
  traffic_gb_seconds: used.traffic_gb,
});

/** The limits of the person and of their account, and what is used of them. */
export function OwnQuota() {
  const isRoot = useIsRoot();
  const read = useRead('getQuota');
  return (
    <>
      <Loaded read={read}>
        {({ quotas, used, account_quotas: ofAccount, account_used: accountUsed }) => (
          <div className="columns">
            <Section title="Your use of this month">
              <p className="soft">
                {quotas === null && 'You have no quota of your own. '}The next month begins <At at={used.period_end} />.
                When a quota is used up, running sandboxes go on, and no others start.
              </p>
              <QuotaMeters quota={quotas} used={byField(used)} />
            </Section>
            <Section title="Use of the account">
              {ofAccount && accountUsed ? (
                <QuotaMeters quota={ofAccount} used={byField(accountUsed)} />
              ) : (
                <p className="soft">The account has no quota.</p>
              )}
            </Section>
            <Section title="Storage of templates">
              <TemplateStorage />
            </Section>
          </div>
        )}
      </Loaded>
      {/* Root users set quotas instead of requesting them. */}
      {!isRoot && <OwnRequests />}
    </>
  );
}
