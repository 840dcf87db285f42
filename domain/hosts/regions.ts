/** Where a new sandbox should run. */
export interface RegionPreference {
  /** Regions to try first, nearest first; all others follow. */
  nearest: readonly string[];
  /** Only the first region is allowed. */
  forced: boolean;
}

/** No preference. */
export const anyRegion: RegionPreference = { nearest: [], forced: false };

/**
 * A region, followed by the others in the order of their distance if the operator configured it.
 * @param distances for each region the other regions, nearest first
 */
export function nearestTo(region: string, distances: Readonly<Record<string, readonly string[]>>): string[] {
  return [...new Set([region, ...(distances[region] ?? [])])];
}
