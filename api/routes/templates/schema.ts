import { z } from 'zod';
import type { Template } from '../../../db/templates/template.entity.ts';
import type { TemplateView } from '../../../db/templates/templates.ts';
import type { AccountId } from '../../../domain/ids.ts';
import { givenId, personSchema, time } from '../../schemas/fields.ts';
import { portSchema, presentPort } from '../../schemas/port.ts';

export const templatePath = z.object({ template_id: givenId('template', z.string().max(64)).describe('`tpl-…`') });

export const templateVisibility = z.enum(['private', 'account_shared', 'public']);
export const templateStatus = z.enum(['pending', 'building', 'pushing', 'available', 'failed']);

/** An item of the list. */
export const templateItemSchema = z
  .object({
    template_id: z.string(),
    name: z.string(),
    description: z.string(),
    default_cpu_count: z.int(),
    default_memory_mb: z.int(),
    visibility: templateVisibility,
    template_source: z.enum(['platform_family', 'custom']),
    custom_image_source: z.enum(['external', 'imported']).nullable(),
    external_image_url: z.string().nullable(),
    external_registry_username: z.string().nullable(),
    status: templateStatus,
    owner_user_id: z.string().nullable().describe('Null for built-in templates'),
    owner_account_id: z.string().nullable(),
    registry_image_url: z.string().nullable(),
    registry_project: z.string().nullable(),
    registry_repository: z.string().nullable(),
    registry_tag: z.string().nullable(),
    image_size_bytes: z.int().nullable(),
    metadata: z.string().nullable().describe('JSON in text'),
    ports: z.array(portSchema),
    custom_command: z.string().nullable(),
    start_image_command: z
      .boolean()
      .describe('Without `custom_command`, sandboxes start the ENTRYPOINT and CMD of the image'),
    ready_command: z.string().nullable(),
    build_started_at: time().nullable(),
    push_started_at: time().nullable(),
    push_completed_at: time().nullable(),
    build_error_message: z.string().nullable(),
    last_storage_sync_at: time().nullable(),
    created_at: time(),
    updated_at: time(),
    has_template_document: z.boolean(),
    owner: personSchema.omit({ email: true }).optional(),
  })
  .meta({ id: 'TemplateItem' });

/** The get reply. */
export const templateSchema = templateItemSchema
  .extend({
    parent_template_id: z.string().nullable(),
    root_template_id: z.string().nullable(),
    template_document: z.string().nullable().describe('Markdown'),
  })
  .meta({ id: 'Template' });

/** The create reply. */
export const createdTemplateSchema = templateItemSchema
  .omit({ owner_user_id: true, owner_account_id: true, has_template_document: true, owner: true })
  .extend({ owner_id: z.string().nullable() })
  .meta({ id: 'CreatedTemplate' });

/** The template in the reply of a change. */
export const changedTemplateSchema = createdTemplateSchema
  .omit({
    template_source: true,
    custom_image_source: true,
    external_image_url: true,
    external_registry_username: true,
    custom_command: true,
    start_image_command: true,
    ready_command: true,
  })
  .extend({ template_document: z.string().nullable().describe('Markdown') })
  .meta({ id: 'ChangedTemplate' });

/** The template as shown to the owner's account. The schemas drop fields that they do not have. */
function presentOwnTemplate(template: Template) {
  const view = presentTemplate({ template, owner: null }, template.accountId ?? null);
  return { ...view, owner_id: template.ownerUserId ?? null };
}

export function presentCreatedTemplate(template: Template): z.output<typeof createdTemplateSchema> {
  return createdTemplateSchema.strip().parse(presentOwnTemplate(template));
}

export function presentChangedTemplate(template: Template): z.output<typeof changedTemplateSchema> {
  return changedTemplateSchema.strip().parse(presentOwnTemplate(template));
}

/** Every field of a template. Names of registry accounts are only for the owner's account. */
export function presentTemplate(
  { template, owner }: TemplateView,
  accountId: AccountId | null,
): z.output<typeof templateSchema> {
  return {
    template_id: template.templateId,
    name: template.name,
    description: template.description,
    default_cpu_count: template.defaultCpuCount,
    default_memory_mb: template.defaultMemoryMb,
    visibility: template.visibility,
    template_source: template.templateSource,
    custom_image_source: template.customImageSource ?? null,
    external_image_url: template.externalImageUrl ?? null,
    external_registry_username: template.accountId === accountId ? (template.externalRegistryUsername ?? null) : null,
    status: template.status,
    owner_user_id: template.ownerUserId ?? null,
    owner_account_id: template.accountId ?? null,
    registry_image_url: template.registryImageUrl ?? null,
    registry_project: template.registryProject ?? null,
    registry_repository: template.registryRepository ?? null,
    registry_tag: template.registryTag ?? null,
    image_size_bytes: template.imageSizeBytes ?? null,
    metadata: template.metadata ?? null,
    ports: template.ports.map(presentPort),
    custom_command: template.customCommand ?? null,
    start_image_command: template.startImageCommand,
    ready_command: template.readyCommand ?? null,
    build_started_at: template.buildStartedAt ?? null,
    push_started_at: template.pushStartedAt ?? null,
    push_completed_at: template.pushCompletedAt ?? null,
    build_error_message: template.buildErrorMessage ?? null,
    last_storage_sync_at: template.lastStorageSyncAt ?? null,
    created_at: template.createdAt,
    updated_at: template.updatedAt,
    has_template_document: Boolean(template.templateDocument?.trim()),
    ...(owner ? { owner: { user_id: owner.userId, username: owner.username, display_name: owner.displayName } } : {}),
    parent_template_id: template.parentTemplateId ?? null,
    root_template_id: template.rootTemplateId ?? null,
    template_document: template.templateDocument ?? null,
  };
}
