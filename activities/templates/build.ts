import { ApplicationFailure } from '@temporalio/common';
import type { PlanCatalog } from '../../db/billing/plans.ts';
import type { Orm } from '../../db/orm.ts';
import {
  type BuildEnd,
  completeBuild,
  failBuild,
  findBuild,
  recordPushing,
} from '../../db/templates/template-builds.ts';
import type { TemplateImage } from '../../db/templates/template-changes.ts';
import type { AccountId, SandboxId, TemplateId } from '../../domain/ids.ts';
import { readRegistryImage, registryImage } from '../../domain/templates/image.ts';
import { pushImage } from '../../integrations/registry/image-push.ts';
import type { PlatformRegistry } from '../../integrations/registry/platform-registry.ts';
import { RegistryError } from '../../integrations/registry/registry-client.ts';
import { DriverError, type SandboxDriver } from '../../runtime/driver.ts';
import { AccountShares } from '../account-shares.ts';
import { hostWork } from '../hosts/host-work.ts';
import { removeIfUnused } from './registry-images.ts';

/** The number of concurrent builds of one account on one host. */
const accountShare = 4;
/**
 * The project for the trees of images that are in no registry of the platform, because hosts make them or pull them
 * from elsewhere.
 */
const treesProject = 'platform-images';

/** The activities of hosts for the builds of templates. */
export function createTemplateBuildHostActivities(deps: {
  orm: Orm;
  driver: SandboxDriver;
  /** Null: the settings have no registry. */
  registry: PlatformRegistry | null;
}) {
  const { orm, driver, registry } = deps;
  const shares = new AccountShares(accountShare);
  const onHost = hostWork();

  const readBuild = async (templateId: TemplateId, sandboxId: SandboxId) => {
    const build = await findBuild(orm.em, templateId, sandboxId);
    if (!build) throw ApplicationFailure.nonRetryable('The template is gone', 'build_over');
    return build;
  };

  /**
   * The base image in the registry if the sandbox's image is not there: its one layer is the tree of that image. Pushes
   * it if it is missing.
   */
  async function pushedTree(
    to: PlatformRegistry,
    templateId: TemplateId,
    accountId: AccountId,
    image: string,
    signal: AbortSignal,
  ): Promise<{ path: string; digest: string }> {
    const digest = await driver.builds.imageDigest(image, signal);
    const path = to.formatPath({ project: treesProject, repository: 'trees' });
    const tag = digest.replace(':', '-');
    try {
      const there = await to.find(path, tag);
      if (there) return { path, digest: there.digest };
      const { layer, config } = await driver.builds.packImage(templateId, image, accountId, signal);
      const pushed = await pushImage(to, { base: null, config, layer, to: { path, tag } }, signal);
      return { path, digest: pushed.digest };
    } catch (error) {
      throw registryFailure(error);
    }
  }

  return {
    /** Copies the disk of the sandbox and packs its changes. */
    packSandbox(templateId: TemplateId, sandboxId: SandboxId): Promise<void> {
      return onHost(async (signal) => {
        const { accountId } = await readBuild(templateId, sandboxId);
        await shares.run(accountId, signal, async () => {
          await driver.builds.copyDisk(templateId, sandboxId, signal).catch(sandboxGone);
          await driver.builds.packChanges(templateId, accountId, signal);
        });
      });
    },

    /** Pushes the packed changes as a layer over the image of the sandbox. @returns the image for the template */
    pushTemplate(templateId: TemplateId, sandboxId: SandboxId): Promise<TemplateImage> {
      return onHost(async (signal) => {
        const { accountId, image, place } = await readBuild(templateId, sandboxId);
        if (!registry) throw ApplicationFailure.nonRetryable('The platform has no registry', 'build_failed');
        const changes = await driver.builds.packChanges(templateId, accountId, signal);
        const base = readRegistryImage(image) ?? (await pushedTree(registry, templateId, accountId, image, signal));
        const path = registry.formatPath(place);
        try {
          const pushed = await pushImage(registry, { base, layer: changes, to: { path, tag: place.tag } }, signal);
          return {
            image: registryImage(path, pushed.digest),
            registryImageUrl: registry.formatUrl(place),
            registryProject: place.project,
            registryRepository: place.repository,
            registryTag: place.tag,
            imageSizeBytes: pushed.sizeBytes,
            imageBlobs: pushed.blobs,
          };
        } catch (error) {
          throw registryFailure(error);
        }
      });
    },

    /** Removes the files of a build from this host. */
    discardBuild(templateId: TemplateId): Promise<void> {
      return driver.builds.discard(templateId);
    },
  };
}

/** Activities on the rows of built templates, and on pushed images that no template uses. */
export function createTemplateBuildActivities(deps: {
  orm: Orm;
  plans: PlanCatalog;
  registry: PlatformRegistry | null;
}) {
  const { orm, plans, registry } = deps;
  return {
    recordPushing: (templateId: TemplateId): Promise<void> => recordPushing(orm.em, templateId),
    completeBuild: (templateId: TemplateId, image: TemplateImage): Promise<BuildEnd> =>
      completeBuild(orm.em, plans, templateId, image),
    failBuild: (templateId: TemplateId, reason: string): Promise<void> => failBuild(orm.em, templateId, reason),
    /** Removes a pushed image that no template got, unless something refers to it. */
    async discardImage(image: string): Promise<void> {
      if (registry) await removeIfUnused({ orm, registry }, image);
    },
  };
}

export type TemplateBuildHostActivities = ReturnType<typeof createTemplateBuildHostActivities>;
export type TemplateBuildActivities = ReturnType<typeof createTemplateBuildActivities>;

function sandboxGone(error: unknown): never {
  if (!(error instanceof DriverError && error.code === 'sandbox_absent')) throw error;
  throw ApplicationFailure.nonRetryable('The sandbox stopped running before its disk was copied', 'sandbox_absent');
}

function registryFailure(error: unknown): unknown {
  if (!(error instanceof RegistryError)) return error;
  const text = 'The registry of the platform did not take the image';
  const isFinal = error.status === 401 || error.status === 403;
  return isFinal ? ApplicationFailure.nonRetryable(text, 'registry_failed') : new Error(text, { cause: error });
}
