import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { SecretKeys } from '../platform/config/secret-keys.ts';
import { deriveSecrets, type PlatformSecrets } from '../platform/config/secrets.ts';
import { SettingsError } from '../platform/config/settings.ts';
import type { Orm } from './orm.ts';
import { readSecretKeys, type SecretKeySettings, secretKeysReadMs } from './upkeep/secret-keys.ts';

const retryMs = 1000;

type SecretSettings = SecretKeySettings & { PLATFORM_CODEC_KEYS?: string | undefined };

/**
 * The secrets of a process, which follow a change of the secret key. Waits while the database is away.
 * @throws {SettingsError} when the key is not that of the database
 */
export async function openSecrets(
  orm: Orm,
  settings: SecretSettings,
  logger: Pick<Logger, 'error' | 'info'>,
): Promise<{ secrets: PlatformSecrets; stopFollowing(): void }> {
  let reported = '';
  const report = (error: unknown) => {
    if (reported !== String(error)) logger.error({ err: error }, 'the secret keys could not be read; trying again');
    reported = String(error);
  };
  let known = null;
  while (!known) {
    try {
      known = await readSecretKeys(orm.em.fork(), settings);
    } catch (error) {
      if (error instanceof SettingsError) throw error;
      report(error);
      await delay(retryMs);
    }
  }
  const keys = new SecretKeys(known);
  let isReading = false;
  const follow = async () => {
    // A database that hangs has one waiting read of each process.
    if (isReading) return;
    isReading = true;
    const before = keys.current;
    try {
      keys.replace(await readSecretKeys(orm.em.fork(), settings));
      reported = '';
    } catch (error) {
      // The process goes on with the keys that it knows.
      report(error);
    } finally {
      isReading = false;
    }
    if (keys.current !== before) logger.info({ number: keys.current }, 'a new secret key is in use');
  };
  const timer = setInterval(() => void follow(), secretKeysReadMs).unref();
  return { secrets: deriveSecrets(settings, keys), stopFollowing: () => clearInterval(timer) };
}

/** The secrets for a short time. @throws {SettingsError} when the key is not that of the database */
export async function readSecrets(orm: Orm, settings: SecretSettings): Promise<PlatformSecrets> {
  return deriveSecrets(settings, new SecretKeys(await readSecretKeys(orm.em.fork(), settings)));
}
