import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, TemplateId, UserId } from '../../domain/ids.ts';
import type { Port } from '../../domain/sandboxes/ports.ts';
import type { ImageBlob } from '../../domain/templates/image-manifest.ts';

/** The blueprint of sandboxes: an image and default resources. */
export const Template = defineEntity({
  name: 'Template',
  tableName: 'templates',
  properties: {
    templateId: p.string().$type<TemplateId>().primary(),
    /** Null for built-in templates. */
    accountId: p.string().$type<AccountId>().nullable(),
    ownerUserId: p.string().$type<UserId>().nullable(),
    name: p.string(),
    description: p.string().default(''),
    defaultCpuCount: p.integer(),
    defaultMemoryMb: p.integer(),
    visibility: p.string().$type<'private' | 'account_shared' | 'public'>(),
    templateSource: p.string().$type<'platform_family' | 'custom'>(),
    customImageSource: p.string().$type<'external' | 'imported'>().nullable(),
    externalImageUrl: p.string().nullable(),
    externalRegistryUsername: p.string().nullable(),
    status: p.string().$type<'pending' | 'building' | 'pushing' | 'available' | 'failed'>(),
    /** Encrypted for the import, which removes it when it is complete. */
    registryPassword: p.text().nullable(),
    /**
     * `registry:<path>@<digest>`, another reference that hosts pull, or `builtin:<name>`, which hosts make themselves.
     */
    image: p.string().nullable(),
    registryImageUrl: p.string().nullable(),
    registryProject: p.string().nullable(),
    registryRepository: p.string().nullable(),
    registryTag: p.string().nullable(),
    /** The configuration and the layers of the image. */
    imageBlobs: p.json<ImageBlob[]>().nullable(),
    imageSizeBytes: p.bigint('number').nullable(),
    metadata: p.string().nullable(),
    ports: p.json<Port[]>(),
    customCommand: p.string().nullable(),
    /** Sandboxes start the ENTRYPOINT and CMD of the image if there is no `customCommand`. */
    startImageCommand: p.boolean().default(true),
    readyCommand: p.string().nullable(),
    buildStartedAt: p.datetime(3).nullable(),
    pushStartedAt: p.datetime(3).nullable(),
    pushCompletedAt: p.datetime(3).nullable(),
    /** The platform builds the image from the changes in this sandbox. Null: no such build is in progress. */
    buildSandboxId: p.string().nullable(),
    buildErrorMessage: p.string().nullable(),
    lastStorageSyncAt: p.datetime(3).nullable(),
    parentTemplateId: p.string().$type<TemplateId>().nullable(),
    rootTemplateId: p.string().$type<TemplateId>().nullable(),
    templateDocument: p.text().nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type Template = InferEntity<typeof Template>;
