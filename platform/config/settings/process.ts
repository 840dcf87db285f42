import os from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { emptyIsUnset, positive, text, textOr } from './field-types.ts';

const secretKey = z.string().refine((key) => Buffer.from(key, 'base64').length >= 32, {
  message: 'must be base64 of at least 32 bytes, for example from: openssl rand -base64 32',
});

/** Settings of every process: its folders, secrets, database and log. */
export const processSettings = {
  /** The folder of the embedded parts, the CA, sandboxes' disks and `platform.env`. */
  PLATFORM_DATA_DIR: textOr('.data').transform((dir) => path.resolve(dir)),
  /**
   * The folder of what can be rebuilt: programs that set-up builds, unpacked images. All copies of the platform on a
   * machine share it.
   */
  PLATFORM_CACHE_DIR: textOr(
    path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'sandbox-platform'),
  ).transform((dir) => path.resolve(dir)),
  /** Base64 of 32 bytes; every other secret of the platform is derived from it. `npm start` makes one. */
  PLATFORM_SECRET_KEY: secretKey,
  /** While the secret key is replaced: the former one. It reads and verifies; nothing new is made with it afterwards. */
  PLATFORM_PREVIOUS_SECRET_KEY: z.preprocess(emptyIsUnset, secretKey.optional()),
  /** `kid:base64,…`, newest first, for workflow payloads. Empty: one key derived from PLATFORM_SECRET_KEY. */
  PLATFORM_CODEC_KEYS: text(),
  /** The platform's database as a `postgres://` URL, with the role that its processes use. */
  DATABASE_URL: z.string(),
  /**
   * The same database with the role that owns the tables. Only migrations use it. They create the role of DATABASE_URL
   * when it is missing; that role may add and read audit events, but not change them. Empty: one role for both.
   */
  DATABASE_OWNER_URL: text(),
  /**
   * The most connections that one process opens. A control worker may open twice as many: half of them are only for the
   * lives of sandboxes.
   */
  DATABASE_POOL_SIZE: positive(10),
  PLATFORM_LOG_LEVEL: z.preprocess(
    emptyIsUnset,
    z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  ),
};
