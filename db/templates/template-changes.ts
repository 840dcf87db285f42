import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId, TemplateId, UserId } from '../../domain/ids.ts';
import { activeImportStatuses } from '../../domain/templates/import-jobs.ts';
import { requireBudget } from '../billing/budget-rows.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { recordEvent } from '../core/events.ts';
import { lockRow } from '../core/lock-row.ts';
import { requestStart } from '../core/outbox.ts';
import type { Scope } from '../core/scope.ts';
import { Sandbox } from '../sandboxes/sandbox.entity.ts';
import { ImportJob } from './import-job.entity.ts';
import { Template } from './template.entity.ts';
import { findTemplateView, requireUnreservedName } from './templates.ts';

/** The user who changes a template. */
export interface TemplateCaller {
  accountId: AccountId;
  userId: UserId;
  role: 'user' | 'admin';
}

/** The place of a template's image, and its parts. */
export type TemplateImage = Pick<
  Template,
  | 'image'
  | 'registryImageUrl'
  | 'registryProject'
  | 'registryRepository'
  | 'registryTag'
  | 'imageSizeBytes'
  | 'imageBlobs'
>;

export type NewTemplate = Pick<
  Template,
  | 'templateId'
  | 'name'
  | 'description'
  | 'defaultCpuCount'
  | 'defaultMemoryMb'
  | 'visibility'
  | 'templateSource'
  | 'status'
  | 'ports'
> &
  Partial<Template>;

/**
 * Adds a template of the caller.
 * @throws {AppError} `template_name_taken`, `template_limit_reached`, `budget_restricted`
 */
export async function createTemplate(
  em: EntityManager,
  caller: TemplateCaller,
  wanted: NewTemplate,
  maxTemplates: number,
  also: (tx: EntityManager) => void = () => {},
): Promise<void> {
  const { accountId, userId: ownerUserId } = caller;
  await accountTransaction(em, accountId, async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    await requireBudget(tx, accountId);
    await requireUnreservedName(tx, wanted.name, accountId);
    if ((await tx.count(Template, { accountId })) >= maxTemplates) {
      throw new AppError(
        'template_limit_reached',
        `The plan allows ${maxTemplates} templates in an account; delete one first`,
      );
    }
    tx.create(Template, { rootTemplateId: wanted.templateId, ...wanted, accountId, ownerUserId });
    await tx.flush();
    also(tx);
  });
}

/**
 * Changes a template that the caller may change.
 * @param change called while the row is locked
 * @throws {AppError} `not_found`, `template_of_another_user`, `template_name_taken`, and the errors of `change`
 */
export async function changeTemplate(
  em: EntityManager,
  by: { caller: TemplateCaller; scope: Scope },
  templateId: TemplateId,
  change: (template: Template, tx: EntityManager) => Partial<Template> | Promise<Partial<Template>>,
): Promise<Template> {
  return accountTransaction(em, by.caller.accountId, async (tx) => {
    const template = await lockChangeable(tx, by, templateId);
    const changed = await change(template, tx);
    if (changed.name !== undefined && changed.name !== template.name && template.accountId) {
      await requireUnreservedName(tx, changed.name, template.accountId);
    }
    tx.assign(template, { ...changed, updatedAt: new Date() });
    return template;
  });
}

/**
 * Records that the image of a template exists. Call this with the row locked. Built-in templates have no owner to
 * notify.
 */
export async function recordUpload(
  tx: EntityManager,
  { templateId, accountId, ownerUserId: userId, name }: Template,
): Promise<void> {
  if (!accountId || !userId) return;
  const object = { objectId: templateId, accountId, userId };
  await recordEvent(tx, object, 'template.uploaded', { template_id: templateId, name });
}

/**
 * Deletes a template, and requests the removal of its image if nothing else refers to it.
 * @throws {AppError} `not_found`, `template_of_another_user`, `template_in_use`, `import_in_progress`
 */
export async function deleteTemplate(
  em: EntityManager,
  by: { caller: TemplateCaller; scope: Scope },
  templateId: TemplateId,
): Promise<void> {
  await accountTransaction(em, by.caller.accountId, async (tx) => {
    const template = await lockChangeable(tx, by, templateId);
    // Hosts refer to built-in templates, and the next start would restore a deleted one.
    const { accountId, ownerUserId } = template;
    if (!accountId || !ownerUserId) throw ofAnotherUser();
    const inUse = await tx.count(Sandbox, { templateId, holdsDisk: true });
    if (inUse > 0) {
      throw new AppError(
        'template_in_use',
        `${inUse} sandboxes are made from this template, paused ones included; terminate or delete them first`,
      );
    }
    await requireNoImport(tx, templateId);
    await recordEvent(tx, { objectId: templateId, accountId, userId: ownerUserId }, 'template.deleted', {
      template_id: templateId,
      name: template.name,
    });
    if (template.image) requestStart(tx, 'imageRemoval', template.image, { accountId, image: template.image });
    tx.remove(template);
  });
}

/** @throws {AppError} `import_in_progress`, `build_in_progress` */
export async function requireNoImport(tx: EntityManager, templateId: TemplateId): Promise<void> {
  if (await tx.count(Template, { templateId, buildSandboxId: { $ne: null } })) {
    throw new AppError(
      'build_in_progress',
      'The image of this template is being made from a sandbox; wait until it is',
    );
  }
  if (await tx.count(ImportJob, { templateId, status: { $in: [...activeImportStatuses] } })) {
    throw new AppError('import_in_progress', 'An import of this template is running; cancel it first');
  }
}

/**
 * Checks a request against the template before any other check.
 * @throws {AppError} `not_found`, `template_of_another_user`
 */
export async function requireChangeable(
  em: EntityManager,
  { caller, scope }: { caller: TemplateCaller; scope: Scope },
  templateId: TemplateId,
): Promise<Template> {
  const view = await findTemplateView(em, scope, templateId);
  if (!view) throw notFound('Template');
  if (!mayChange(view.template, { caller, scope })) throw ofAnotherUser();
  return view.template;
}

async function lockChangeable(
  tx: EntityManager,
  by: { caller: TemplateCaller; scope: Scope },
  templateId: TemplateId,
): Promise<Template> {
  await requireChangeable(tx, by, templateId);
  const template = await tx.findOne(Template, { templateId }, { lockMode: LockMode.PESSIMISTIC_WRITE, refresh: true });
  if (!template) throw notFound('Template');
  if (!mayChange(template, by)) throw ofAnotherUser();
  return template;
}

/** The owner, callers who work on the whole account, and for public templates operators. */
function mayChange(template: Template, { caller, scope }: { caller: TemplateCaller; scope: Scope }): boolean {
  if (scope.rows === 'everything' || (template.visibility === 'public' && caller.role === 'admin')) return true;
  if (template.accountId !== scope.accountId) return false;
  return scope.rows === 'account' || template.ownerUserId === scope.userId;
}

function ofAnotherUser(): AppError {
  return new AppError('template_of_another_user', 'Only the owner of a template or an administrator may change it');
}
