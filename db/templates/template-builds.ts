import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import type { AccountId, SandboxId, TemplateId } from '../../domain/ids.ts';
import type { RegistryPlace } from '../../domain/templates/image.ts';
import { addNotification } from '../accounts/notifications.ts';
import type { PlanCatalog } from '../billing/plans.ts';
import { lockRow } from '../core/lock-row.ts';
import { Sandbox } from '../sandboxes/sandbox.entity.ts';
import { Template } from './template.entity.ts';
import { recordUpload, type TemplateImage } from './template-changes.ts';
import { storageExcess } from './template-storage.ts';

/** The facts for a build from the rows. */
interface BuildPlan {
  accountId: AccountId;
  /** The image of the sandbox. */
  image: string;
  place: RegistryPlace;
}

/** `gone`: the template was deleted meanwhile, or its build has already ended. */
export type BuildEnd = 'completed' | 'no_room' | 'gone';

const maxMessageLength = 2000;

/** Null: the build has ended, or its template or sandbox is gone. */
export async function findBuild(
  em: EntityManager,
  templateId: TemplateId,
  sandboxId: SandboxId,
): Promise<BuildPlan | null> {
  const fork = em.fork();
  const template = await fork.findOne(Template, { templateId, buildSandboxId: sandboxId });
  const sandbox = template && (await fork.findOne(Sandbox, { sandboxId }));
  if (!sandbox || !template.accountId) return null;
  return {
    accountId: template.accountId,
    image: sandbox.image,
    place: {
      project: template.registryProject!,
      repository: template.registryRepository!,
      tag: template.registryTag!,
    },
  };
}

export async function recordPushing(em: EntityManager, templateId: TemplateId): Promise<void> {
  const now = new Date();
  await em
    .fork()
    .nativeUpdate(
      Template,
      { templateId, buildSandboxId: { $ne: null }, status: 'building' },
      { status: 'pushing', pushStartedAt: now, updatedAt: now },
    );
}

/** Gives a template its built image. */
export async function completeBuild(
  em: EntityManager,
  plans: PlanCatalog,
  templateId: TemplateId,
  image: TemplateImage,
): Promise<BuildEnd> {
  return em.fork().transactional(async (tx) => {
    const found = await tx.findOne(Template, { templateId });
    // Locks in the same order as every other change: the account, then the template.
    if (found?.accountId) await lockRow(tx, 'accounts', found.accountId);
    const template = await lockBuilding(tx, templateId);
    // An earlier attempt whose reply was lost has already done this.
    if (!template) return found?.image === image.image ? 'completed' : 'gone';
    if (await storageExcess(tx, plans, template, image.imageBlobs ?? [])) {
      end(tx, template, 'The image is beyond the storage for images of templates that the plan or a quota allows');
      return 'no_room';
    }
    tx.assign(template, {
      ...image,
      status: 'available',
      pushCompletedAt: new Date(),
      lastStorageSyncAt: new Date(),
      buildSandboxId: null,
      buildErrorMessage: null,
    });
    await recordUpload(tx, template);
    notify(tx, template, 'completed', `${template.name} is available.`);
    return 'completed';
  });
}

/** Has no effect on an ended build. */
export async function failBuild(em: EntityManager, templateId: TemplateId, reason: string): Promise<void> {
  await em.fork().transactional(async (tx) => {
    const template = await lockBuilding(tx, templateId);
    if (template) end(tx, template, reason);
  });
}

function end(tx: EntityManager, template: Template, reason: string): void {
  const message = reason.slice(0, maxMessageLength);
  tx.assign(template, { status: 'failed', buildErrorMessage: message, buildSandboxId: null });
  notify(tx, template, 'failed', `${template.name} could not be made: ${message}`);
}

function lockBuilding(tx: EntityManager, templateId: TemplateId): Promise<Template | null> {
  const building = { templateId, buildSandboxId: { $ne: null } };
  return tx.findOne(Template, building, { lockMode: LockMode.PESSIMISTIC_WRITE, refresh: true });
}

function notify(tx: EntityManager, template: Template, how: 'completed' | 'failed', message: string): void {
  const { accountId, ownerUserId: userId, templateId } = template;
  if (!accountId || !userId) return;
  addNotification(tx, {
    accountId,
    userId,
    title: how === 'completed' ? 'A template is available' : 'A template could not be made',
    message,
    type: `template_build_${how}`,
    category: 'template',
    relatedEntityType: 'template',
    relatedEntityId: templateId,
  });
}
