import { afterAll, beforeAll } from '@jest/globals';
import { FaultyPlatform } from './faulty-platform.ts';

/**
 * Starts a platform before the tests of a file, and removes everything of it after them.
 * @param onStart gets it
 * @param given settings over the defaults
 */
export function withPlatform(onStart: (platform: FaultyPlatform) => void, given: NodeJS.ProcessEnv = {}): void {
  let platform: FaultyPlatform | undefined;
  beforeAll(async () => {
    platform = await FaultyPlatform.start(given);
    onStart(platform);
  }, 180_000);
  afterAll(async () => {
    await platform?.stop();
    await platform?.removeData();
  }, 180_000);
}
