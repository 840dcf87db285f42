import { proxyActivities, sleep } from '@temporalio/workflow';
import type { RegistryImageActivities, SweepResult } from '../../activities/templates/registry-images.ts';
import { outside, upkeep } from '../activity-profiles.ts';

const reading = proxyActivities<RegistryImageActivities>(upkeep);
const removing = proxyActivities<RegistryImageActivities>(outside.registry);

export const imagesPerActivity = 20;
const closingMs = 30_000;
/** Attempts at an import end within an hour. */
const maxClosingPolls = 150;

/** The result of one round. */
export interface CollectionReport {
  found: number;
  removed: number;
  sweep: SweepResult;
}

/**
 * Removes images that have been unreferenced for a day from the platform's registry, and lets the embedded registry
 * free their disk space. A schedule starts this workflow. Workflow id: `image-collection`.
 */
export async function imageCollection(): Promise<CollectionReport> {
  const images = await reading.findUnusedImages();
  let removed = 0;
  for (let at = 0; at < images.length; at += imagesPerActivity) {
    removed += await removing.removeUnusedImages(images.slice(at, at + imagesPerActivity));
  }
  let sweep = await reading.sweepRegistry();
  for (let polls = 0; sweep === 'closing' && polls < maxClosingPolls; polls++) {
    await sleep(closingMs, { summary: 'imports that write to the registry end' });
    sweep = await reading.sweepRegistry();
  }
  return { found: images.length, removed, sweep };
}
