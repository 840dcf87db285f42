import { setTimeout as delay } from 'node:timers/promises';
import { readSecrets } from '../../../db/open-secrets.ts';
import {
  countUsesOfFormerKeys,
  onlyReadableMs,
  replaceSecretKey,
  resealAll,
  secretKeysReadMs,
} from '../../../db/upkeep/secret-keys.ts';
import { type OperatorCommand, reportProgress } from './operator-command.ts';

/** After this time, every running process writes with the new key. */
const inUseMs = onlyReadableMs + 2 * secretKeysReadMs;

export const rotateSecretKeyCommand: OperatorCommand = {
  usage: '',
  does: 'Replaces PLATFORM_PREVIOUS_SECRET_KEY by PLATFORM_SECRET_KEY, and encrypts everything stored with it; may be repeated',
  options: {},
  async run({ orm, settings }) {
    const { number, sinceMs } = await replaceSecretKey(orm.em, settings);
    const waitMs = Math.max(0, inUseMs - sinceMs);
    if (waitMs > 0) reportProgress(`waiting ${Math.ceil(waitMs / 1000)} s until all processes use key ${number}`);
    await delay(waitMs);
    const { rewritten, unreadable } = await resealAll(orm.em, await readSecrets(orm, settings));
    return {
      secretKey: number,
      rewritten,
      unreadable,
      stillFromFormerKeys: await countUsesOfFormerKeys(orm.em, number),
      next: 'Remove PLATFORM_PREVIOUS_SECRET_KEY and restart every process',
    };
  },
};
