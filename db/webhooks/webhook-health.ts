import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, UserId, WebhookEndpointId } from '../../domain/ids.ts';
import { failingDaysUntilDisabled } from '../../domain/webhooks/schedule.ts';
import { addNotification } from '../accounts/notifications.ts';
import { User } from '../accounts/user.entity.ts';

/** An endpoint that a write of results disabled, or that works again. */
export interface ChangedEndpoint {
  endpoint_id: WebhookEndpointId;
  account_id: AccountId;
  user_id: UserId | null;
  url: string;
  disabled_reason: string | null;
  disables: boolean;
  /** It works again after so many failures that only workflows made attempts. */
  recovers: boolean;
}

/** The owner, or the root users if the webhook belongs to the account. */
export async function notifyOwners(tx: EntityManager, row: ChangedEndpoint): Promise<void> {
  const whose = row.user_id ? { userId: row.user_id } : { accountId: row.account_id, isRootUser: true };
  const owners = await tx.find(User, { ...whose, status: 'enabled' }, { fields: ['userId'] });
  const why =
    row.disabled_reason === 'gone' ? 'it answered 410' : `it has only failed for ${failingDaysUntilDisabled} days`;
  for (const { userId } of owners) {
    addNotification(tx, {
      accountId: row.account_id,
      userId,
      title: 'A webhook was disabled',
      message: `${new URL(row.url).origin} no longer gets events: ${why}. Set is_active to send to it again.`,
      type: 'webhook_disabled',
      category: 'webhook',
      relatedEntityType: 'webhook',
      relatedEntityId: row.endpoint_id,
    });
  }
}
