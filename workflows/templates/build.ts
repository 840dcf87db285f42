import { ActivityFailure, ApplicationFailure } from '@temporalio/common';
import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
} from '@temporalio/workflow';
import type { TemplateBuildActivities, TemplateBuildHostActivities } from '../../activities/templates/build.ts';
import type { TemplateBuildInput } from '../../domain/workflow-registry.ts';
import { database, onHost, outside } from '../activity-profiles.ts';

const rows = proxyLocalActivities<TemplateBuildActivities>(database);
const registry = proxyActivities<TemplateBuildActivities>(outside.registry);

/**
 * Makes the image of a template from the changes in a sandbox: the host copies the disk, packs a layer, and pushes it
 * with the layers of the sandbox's image. The manifest is pushed last, so a half-pushed image cannot be used. The
 * sandbox keeps running and may end meanwhile. Workflow id: `tpl-…/build`.
 */
export async function templateBuild({ templateId, sandboxId, hostId }: TemplateBuildInput): Promise<void> {
  const host = proxyActivities<TemplateBuildHostActivities>(onHost.building(hostId));
  const discarding = proxyActivities<TemplateBuildHostActivities>(onHost.discarding(hostId));
  try {
    setCurrentDetails('copying the disk of the sandbox');
    await host.packSandbox(templateId, sandboxId);
    await rows.recordPushing(templateId);
    setCurrentDetails('pushing the image');
    const image = await host.pushTemplate(templateId, sandboxId);
    const end = await rows.completeBuild(templateId, image);
    setCurrentDetails(end);
    if (end !== 'completed') await registry.discardImage(image.image!);
  } catch (error) {
    setCurrentDetails('failed');
    await CancellationScope.nonCancellable(() => rows.failBuild(templateId, describeFailure(error)));
    if (!isCancellation(error)) throw error;
  } finally {
    await CancellationScope.nonCancellable(() => discarding.discardBuild(templateId).catch(ignoreAbsentHost));
  }
}

/** A host that is away removes the files of the build a day after it is back. */
function ignoreAbsentHost(error: unknown): void {
  if (!(error instanceof ActivityFailure)) throw error;
}

function describeFailure(error: unknown): string {
  if (isCancellation(error)) return 'The build was cancelled by an operator';
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure && cause.message) return cause.message;
  return 'The host of the sandbox did not finish the image in time';
}
