import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, UserId } from '../../domain/ids.ts';
import type { ImageBlob } from '../../domain/image-manifest.ts';
import { bytesOfGb } from '../../domain/template-storage.ts';
import { Account } from '../entities/account.ts';
import type { Template } from '../entities/template.ts';
import type { PlanCatalog } from '../plans.ts';
import { query } from '../query.ts';
import { findActiveAllocation } from './quota-allocations.ts';
import { findSubscription, planHeldBy } from './subscriptions.ts';

/**
 * The bytes of the images of private templates. A layer that several of them share counts once.
 * @param of an account, and optionally one user of it
 */
export async function templateStorageBytes(
  em: EntityManager,
  of: { accountId: AccountId; userId?: UserId },
  besides: readonly ImageBlob[] = [],
): Promise<number> {
  const [row] = await query<{ bytes: string }>(
    em,
    `select coalesce(sum(size), 0)::bigint as bytes from (
       select distinct on (digest) digest, size from (
         select b.digest, b.size from templates t, jsonb_to_recordset(t.image_blobs) as b(digest text, size bigint)
          where t.account_id = ? and t.visibility = 'private' and t.image_blobs is not null
            and (?::text is null or t.owner_user_id = ?)
         union all select n.digest, n.size from jsonb_to_recordset(?::jsonb) as n(digest text, size bigint)
       ) blobs) distinct_blobs`,
    [of.accountId, of.userId ?? null, of.userId ?? null, JSON.stringify(besides)],
  );
  return Number(row!.bytes);
}

export interface StorageLimit {
  /** The exceeded limit: the plan's limit of the account, or the quota's limit of the user. */
  of: 'plan' | 'quota';
  limitGb: number;
}

/**
 * Whether an image of a private template would exceed the account's plan or the owner's quota.
 * @returns the limit; null when the image fits
 */
export async function storageExcess(
  em: EntityManager,
  plans: PlanCatalog,
  template: Pick<Template, 'accountId' | 'ownerUserId' | 'visibility'>,
  blobs: readonly ImageBlob[],
): Promise<StorageLimit | null> {
  const { accountId, ownerUserId, visibility } = template;
  if (visibility !== 'private' || !accountId || !ownerUserId) return null;
  const { planName } = await em.findOneOrFail(Account, { accountId });
  const boughtPlan = (await findSubscription(em, accountId))?.plan ?? null;
  const limitGb = planHeldBy({ planName, boughtPlan }, plans).maxTemplateStorageGb;
  if ((await templateStorageBytes(em, { accountId }, blobs)) > bytesOfGb(limitGb)) return { of: 'plan', limitGb };
  const quotaGb = (await findActiveAllocation(em, ownerUserId))?.templateStorageGb ?? null;
  if (quotaGb === null) return null;
  const used = await templateStorageBytes(em, { accountId, userId: ownerUserId }, blobs);
  return used > bytesOfGb(quotaGb) ? { of: 'quota', limitGb: quotaGb } : null;
}
