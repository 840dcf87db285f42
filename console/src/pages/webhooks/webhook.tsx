import { useParams } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { Figure } from '../../components/figure.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { UserName } from '../../components/user-name.tsx';
import { Ago, At, Copyable, Facts, Status, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { Deliveries } from './deliveries.tsx';
import { WebhookActions } from './webhook-actions.tsx';

type Webhook = DataOf<'getWebhook'>;

export function Page() {
  const { endpointId = '' } = useParams({ strict: false });
  return <WebhookPage key={endpointId} endpointId={endpointId} />;
}

/** No event tells of deliveries. */
const everyMs = 10_000;

function WebhookPage({ endpointId }: { endpointId: string }) {
  const read = useRead('getWebhook', { path: { endpoint_id: endpointId } }, { everyMs });
  const webhook = read.data;
  return (
    <PageBody
      title={webhook ? visibleText(webhook.url) : endpointId}
      above={{ to: '/webhooks', label: 'Webhooks' }}
      actions={webhook && <WebhookActions webhook={webhook} />}
    >
      <Loaded read={read}>
        {(data) => (
          <>
            {!data.is_active && <WhyDisabled webhook={data} />}
            <Health webhook={data} />
            <About webhook={data} />
            <Deliveries endpointId={endpointId} />
          </>
        )}
      </Loaded>
    </PageBody>
  );
}

const reasons = {
  gone: 'Its address replied 410, which means that it wants no more events.',
  failing: 'All attempts of five days have failed.',
};

function WhyDisabled({ webhook: { disabled_reason: reason } }: { webhook: Webhook }) {
  return (
    <p className="note">
      <strong>This webhook is disabled and gets no events.</strong> {reason && reasons[reason]} Events of this time are
      not sent later.
    </p>
  );
}

function Health({ webhook }: { webhook: Webhook }) {
  const { total_deliveries: total, successful_deliveries: delivered, failed_deliveries: failed } = webhook;
  return (
    <div className="figures">
      <Figure label="Delivered" value={formatCount(delivered)} />
      <Figure label="Failed for good" value={formatCount(failed)} />
      <Figure label="Tried again later" value={formatCount(Math.max(total - delivered - failed, 0))} />
      <Figure label="Last success" value={<Ago at={webhook.last_success_at} />} />
      <Figure label="Last failure" value={<Ago at={webhook.last_failure_at} />} />
    </div>
  );
}

function About({ webhook }: { webhook: Webhook }) {
  const isRoot = useIsRoot();
  const isAdmin = useIsAdmin();
  const { user_id: userId } = webhook;
  return (
    <Section title="Webhook">
      <Facts
        rows={[
          ['Id', <Copyable key="id" text={webhook.endpoint_id} label="Webhook id" />],
          ['Address', <Copyable key="url" text={webhook.url} label="Address" />],
          webhook.description !== '' && ['Description', <Text key="text">{webhook.description}</Text>],
          ['Status', <Status key="status" status={webhook.is_active ? 'active' : 'disabled'} />],
          ['Events', webhook.event_types.join(', ')],
          (isRoot || isAdmin) && [
            'Events of',
            userId === null ? 'All users of the account' : <UserName key="user" userId={userId} />,
          ],
          ['Timeout', `${formatCount(webhook.timeout_seconds)} s for an attempt`],
          ['Retries', formatCount(webhook.max_retries)],
          ['Public key', <Copyable key="key" text={webhook.public_key} label="Public key" />],
          [
            'Signatures',
            webhook.has_secret
              ? 'v1a (ed25519, with the public key) and v1 (HMAC, with the secret)'
              : 'v1a (ed25519, with the public key)',
          ],
          ['Made', <At key="made" at={webhook.created_at} />],
          ['Changed', <At key="changed" at={webhook.updated_at} />],
        ]}
      />
    </Section>
  );
}
