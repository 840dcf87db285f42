import { proxyActivities } from '@temporalio/workflow';
import type { RegistryImageActivities } from '../../activities/templates/registry-images.ts';
import type { ImageRemovalInput } from '../../domain/workflow-registry.ts';
import { outside } from '../activity-profiles.ts';

const images = proxyActivities<RegistryImageActivities>(outside.registry);

/**
 * Removes an image from the platform's registry, unless something refers to it. If this workflow fails, the workflow
 * `image-collection` removes the image later. Workflow id: `<image>/removal`.
 */
export async function imageRemoval({ image }: ImageRemovalInput): Promise<boolean> {
  return images.removeUnusedImage(image);
}
