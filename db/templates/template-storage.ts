import type { EntityManager } from '@mikro-orm/postgresql';
import { type Plan, planHeldBy } from '../../domain/billing/plans.ts';
import type { AccountId, ImportJobId, TemplateId, UserId } from '../../domain/ids.ts';
import type { ImageBlob } from '../../domain/templates/image-manifest.ts';
import { bytesOfGb } from '../../domain/templates/storage.ts';
import { accountLimit } from '../../domain/usage/quotas.ts';
import { Account } from '../accounts/account.entity.ts';
import type { PlanCatalog } from '../billing/plans.ts';
import { findSubscription } from '../billing/subscriptions.ts';
import { query } from '../core/query.ts';
import { findActiveAllocation } from '../usage/quota-allocations.ts';
import type { Template } from './template.entity.ts';

/**
 * The bytes of the images of an account's own templates, private and shared. Public ones, which operators make, do not
 * count. A layer that several images share counts once.
 * @param of an account, and optionally one user of it; without the image that `except` has now
 */
export async function templateStorageBytes(
  em: EntityManager,
  of: { accountId: AccountId; userId?: UserId; except?: TemplateId | undefined },
  besides: readonly ImageBlob[] = [],
): Promise<number> {
  const [row] = await query<{ bytes: string }>(
    em,
    `select coalesce(sum(size), 0)::bigint as bytes from (
       select digest, max(size) as size from (
         select b.digest, b.size from templates t, jsonb_to_recordset(t.image_blobs) as b(digest text, size bigint)
          where t.account_id = ? and t.visibility <> 'public' and t.image_blobs is not null
            and (?::text is null or t.owner_user_id = ?) and t.template_id is distinct from ?
         union all select n.digest, n.size from jsonb_to_recordset(?::jsonb) as n(digest text, size bigint)
       ) blobs group by digest) distinct_blobs`,
    [of.accountId, of.userId ?? null, of.userId ?? null, of.except ?? null, JSON.stringify(besides)],
  );
  return Number(row!.bytes);
}

export interface StorageLimit {
  /**
   * The exceeded limit: that of the plan, of the account's quota, or of the user's quota. `leftovers`: the account's
   * other imports, which have failed, were cancelled or still run, have sent as many bytes as its plan allows.
   */
  of: 'plan' | 'account_quota' | 'user_quota' | 'leftovers';
  limitGb: number;
}

/** The GB that the images of an account's own templates may use: of its plan, or of its quota if that is lower. */
export async function accountStorageLimit(
  em: EntityManager,
  accountId: AccountId,
  plan: Plan,
): Promise<StorageLimit & { of: 'plan' | 'account_quota' }> {
  const quota = await findActiveAllocation(em, { accountId, userId: null });
  const { of, limit: limitGb } = accountLimit(plan.maxTemplateStorageGb, quota?.templateStorageGb ?? null);
  return { of, limitGb };
}

/**
 * Whether an image of a template would exceed the account's plan, its quota or the owner's quota.
 * @param importJobId the import of that image, whose own bytes are no leftovers
 * @returns the limit; null when the image fits
 */
export async function storageExcess(
  em: EntityManager,
  plans: PlanCatalog,
  template: Pick<Template, 'accountId' | 'ownerUserId' | 'visibility'> & { templateId?: TemplateId },
  blobs: readonly ImageBlob[],
  importJobId: ImportJobId | null = null,
): Promise<StorageLimit | null> {
  const { accountId, ownerUserId, visibility, templateId: except } = template;
  if (visibility === 'public' || !accountId || !ownerUserId) return null;
  const { planName } = await em.findOneOrFail(Account, { accountId });
  const boughtPlan = (await findSubscription(em, accountId))?.plan ?? null;
  const plan = planHeldBy({ planName, boughtPlan }, plans);
  const ofAccount = await accountStorageLimit(em, accountId, plan);
  const used = await templateStorageBytes(em, { accountId, except }, blobs);
  if (used > bytesOfGb(ofAccount.limitGb)) return ofAccount;
  const limitGb = plan.maxTemplateStorageGb;
  if ((await leftoverBytes(em, accountId, importJobId)) > bytesOfGb(limitGb)) return { of: 'leftovers', limitGb };
  const quotaGb = (await findActiveAllocation(em, { accountId, userId: ownerUserId }))?.templateStorageGb ?? 0;
  if (quotaGb === 0) return null;
  const usedByOwner = await templateStorageBytes(em, { accountId, userId: ownerUserId, except }, blobs);
  return usedByOwner > bytesOfGb(quotaGb) ? { of: 'user_quota', limitGb: quotaGb } : null;
}

/** The text of an excess for the user. */
export function describeExcess({ of, limitGb }: StorageLimit): string {
  if (of === 'leftovers') {
    return `Imports that failed or were cancelled have sent more than the ${limitGb} GB of the plan; they are removed within hours`;
  }
  return `${limitNames[of]} allows ${limitGb} GB of images of templates; delete some first`;
}

const limitNames = {
  plan: 'The plan',
  account_quota: 'The quota of the account',
  user_quota: 'The quota of the user',
} as const;

/** A registry that is not swept from here collects its garbage within this time. */
const leftoversKept = "interval '7 days'";
/** The embedded registry removes incomplete uploads of this age; a sweep leaves them. */
const uploadsKept = "interval '4 hours'";

/** Records bytes that an import has sent to the registry, and that no template has. */
export async function addLeftovers(em: EntityManager, jobId: ImportJobId, bytes: number): Promise<void> {
  if (bytes <= 0) return;
  await query(
    em,
    `insert into import_leftovers as l (job_id, account_id, bytes)
     select job_id, account_id, ? from import_jobs where job_id = ?
     on conflict (job_id) do update set bytes = l.bytes + excluded.bytes, sent_at = now()`,
    [bytes, jobId],
  );
}

/** Takes the bytes of a completed image from the leftovers of its import. */
export async function takeFromLeftovers(em: EntityManager, jobId: ImportJobId, bytes: number): Promise<void> {
  await query(em, 'update import_leftovers set bytes = greatest(0, bytes - ?) where job_id = ?', [bytes, jobId]);
}

/** @param isSwept the registry has just removed all complete blobs that no image has */
export async function forgetLeftovers(em: EntityManager, isSwept: boolean): Promise<void> {
  await query(em, `delete from import_leftovers where sent_at < now() - ${isSwept ? uploadsKept : leftoversKept}`);
}

async function leftoverBytes(em: EntityManager, accountId: AccountId, except: ImportJobId | null): Promise<number> {
  const [row] = await query<{ bytes: string }>(
    em,
    'select coalesce(sum(bytes), 0)::bigint as bytes from import_leftovers where account_id = ? and job_id is distinct from ?',
    [accountId, except],
  );
  return Number(row!.bytes);
}
