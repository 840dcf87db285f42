import type { EntityManager } from '@mikro-orm/postgresql';
import type { TemplateId, WebhookEndpointId } from '../../domain/ids.ts';
import { open, seal } from '../../platform/config/sealed-box.ts';
import { deriveKey, type KnownSecretKeys } from '../../platform/config/secret-keys.ts';
import { numbered, type PlatformSecrets } from '../../platform/config/secrets.ts';
import { type Settings, SettingsError } from '../../platform/config/settings.ts';
import { recordAudit } from '../accounts/audit-events.ts';
import { query } from '../core/query.ts';

export type SecretKeySettings = Pick<Settings, 'PLATFORM_SECRET_KEY' | 'PLATFORM_PREVIOUS_SECRET_KEY'>;

/** How often a running process reads the keys. */
export const secretKeysReadMs = 5000;
/** A new key is only readable for this time, so that every process knows it before one writes with it. */
export const onlyReadableMs = 2 * secretKeysReadMs;
const isInUse = `(number = 1 or created_at < clock_timestamp() - interval '${onlyReadableMs} milliseconds')`;

/** The number of rows that are encrypted again in one statement. */
const batchSize = 500;
const maxReported = 20;

interface KeyRow {
  number: number;
  fingerprint: string;
  sealed_key: string | null;
  is_in_use: boolean;
}

/** Recognises a key. It says nothing about the key, which has 256 random bits. */
const computeFingerprint = (key: Buffer) => deriveKey(key, 'fingerprint').toString('hex');
const sealingKey = (key: Buffer) => deriveKey(key, 'former-secret-keys');
const formatPurpose = (number: number) => `secret key ${number}`;

/**
 * Opens all secret keys that there have been with those of the settings. With the first use of a database, its key
 * becomes number 1.
 * @throws {SettingsError} when no key of the settings is the newest of the database
 */
export async function readSecretKeys(em: EntityManager, settings: SecretKeySettings): Promise<KnownSecretKeys> {
  return opened(await readRows(em, settings), settings);
}

/** Whether `PLATFORM_SECRET_KEY` is the newest key of the database. False: it is yet to replace it. */
export async function isNewestSecretKey(em: EntityManager, settings: SecretKeySettings): Promise<boolean> {
  const [newest] = await readRows(em, settings);
  return newest!.fingerprint === computeFingerprint(decodeKeys(settings)[0]!);
}

/**
 * Makes `PLATFORM_SECRET_KEY` the newest key, and encrypts all former ones with it. Changes nothing if it is already.
 * @returns the time since it became the newest key
 * @throws {SettingsError} when it was already replaced, or when the newest key is not in the settings
 */
export async function replaceSecretKey(
  em: EntityManager,
  settings: SecretKeySettings,
): Promise<{ number: number; sinceMs: number }> {
  return em.fork().transactional(async (tx) => {
    await query(tx, 'lock table secret_keys in share row exclusive mode');
    const rows = await readRows(tx, settings);
    const known = opened(rows, settings);
    const next = decodeKeys(settings)[0]!;
    const fingerprint = computeFingerprint(next);
    const isNew = rows[0]!.fingerprint !== fingerprint;
    const number = rows[0]!.number + (isNew ? 1 : 0);
    if (isNew) {
      if (rows.some((row) => row.fingerprint === fingerprint)) {
        throw wrong('was in use before and was replaced; make another one: openssl rand -base64 32');
      }
      for (const [former, key] of known.byNumber) {
        const sealed = seal(sealingKey(next), formatPurpose(former), key.toString('base64'));
        await query(tx, 'update secret_keys set sealed_key = ? where number = ?', [sealed, former]);
      }
      await query(tx, 'insert into secret_keys (number, fingerprint) values (?, ?)', [number, fingerprint]);
      await recordAudit(tx, { accountId: null, objectId: null, before: null, after: { secret_key_number: number } });
    }
    const [row] = await query<{ since_ms: number }>(
      tx,
      `select (extract(epoch from clock_timestamp() - created_at) * 1000)::float8 as since_ms
         from secret_keys where number = ?`,
      [number],
    );
    return { number, sinceMs: row!.since_ms };
  });
}

/** The number of the key for what is made now. Null: no process has used the database yet. */
export async function secretKeyInUse(em: EntityManager): Promise<number | null> {
  const [row] = await query<{ number: number | null }>(
    em,
    `select max(number) as number from secret_keys where ${isInUse}`,
  );
  return row!.number;
}

/** Columns with texts that are encrypted with a secret key. Each may be read with any key, and is written with one. */
const sealedColumns: {
  table: string;
  id: string;
  column: string;
  reseal(secrets: PlatformSecrets, id: string, sealed: string): string;
}[] = [
  ...['sealed_secret', 'previous_sealed_secret'].map((column) => ({
    table: 'webhook_endpoints',
    id: 'endpoint_id',
    column,
    reseal: (secrets: PlatformSecrets, id: string, sealed: string) =>
      secrets.sealWebhookSecret(id as WebhookEndpointId, secrets.openWebhookSecret(id as WebhookEndpointId, sealed)),
  })),
  {
    table: 'templates',
    id: 'template_id',
    column: 'registry_password',
    reseal: (secrets, id, sealed) =>
      secrets.sealRegistryPassword(id as TemplateId, secrets.openRegistryPassword(id as TemplateId, sealed)),
  },
];

/**
 * Encrypts everything with the newest key that a former one has encrypted, in batches. It may be interrupted and
 * repeated, also while others write.
 * @returns the numbers of rewritten texts by column, and the first rows whose text no key can read
 */
export async function resealAll(
  em: EntityManager,
  secrets: PlatformSecrets,
): Promise<{ rewritten: Record<string, number>; unreadable: string[] }> {
  const rewritten: Record<string, number> = {};
  const unreadable: string[] = [];
  for (const { table, id, column, reseal } of sealedColumns) {
    let count = 0;
    for (let after = ''; ; ) {
      const rows = await query<{ id: string; sealed: string }>(
        em.fork(),
        `select ${id} as id, ${column} as sealed from ${table}
          where ${id} > ? and ${column} is not null and not starts_with(${column}, ?) order by ${id} limit ${batchSize}`,
        [after, numbered(secrets.secretKeyNumber, '')],
      );
      const changes = rows.flatMap((row) => {
        try {
          return [{ ...row, resealed: reseal(secrets, row.id, row.sealed) }];
        } catch {
          if (unreadable.length < maxReported) unreadable.push(`${table}.${column} of ${row.id}`);
          return [];
        }
      });
      // A text that was written meanwhile is the newer one.
      const changed = await query(
        em.fork(),
        `update ${table} t set ${column} = c.resealed
           from jsonb_to_recordset(?::jsonb) as c(id text, sealed text, resealed text)
          where t.${id} = c.id and t.${column} = c.sealed returning 1`,
        [JSON.stringify(changes)],
      );
      count += changed.length;
      if (rows.length < batchSize) break;
      after = rows.at(-1)!.id;
    }
    rewritten[`${table}.${column}`] = count;
  }
  return { rewritten, unreadable };
}

/** What still depends on keys before this one. These keys stay in the database, encrypted with the newest. */
export interface UsesOfFormerKeys {
  /** Users whose password was set with a former key. */
  passwords: number;
  /** Sandboxes with a disk or processes whose tokens are derived from a former key. */
  sandboxes: number;
  /** Webhooks whose signing key is derived from a former key. */
  webhookKeys: number;
}

export async function countUsesOfFormerKeys(em: EntityManager, newest: number): Promise<UsesOfFormerKeys> {
  const [row] = await query<{ passwords: number; sandboxes: number; webhook_keys: number }>(
    em.fork(),
    `select (select count(*) from users where password_hash is not null and not starts_with(password_hash, ?))::int
              as passwords,
            (select count(*) from sandboxes where secret_key_number <> ? and (holds_compute or holds_disk))::int
              as sandboxes,
            (select count(*) from webhook_endpoints where secret_key_number <> ?)::int as webhook_keys`,
    [numbered(newest, ''), newest, newest],
  );
  return { passwords: row!.passwords, sandboxes: row!.sandboxes, webhookKeys: row!.webhook_keys };
}

/** All keys, newest first. */
async function readRows(em: EntityManager, settings: SecretKeySettings): Promise<[KeyRow, ...KeyRow[]]> {
  const read = () =>
    query<KeyRow>(
      em,
      `select number, fingerprint, sealed_key, ${isInUse} as is_in_use from secret_keys order by number desc`,
    );
  const found = await read();
  if (found.length > 0) return found as [KeyRow, ...KeyRow[]];
  // A new database. If the settings also have a former key, that one is the first.
  await query(em, 'insert into secret_keys (number, fingerprint) values (1, ?) on conflict do nothing', [
    computeFingerprint(decodeKeys(settings).at(-1)!),
  ]);
  return (await read()) as [KeyRow, ...KeyRow[]];
}

function opened(rows: [KeyRow, ...KeyRow[]], settings: SecretKeySettings): KnownSecretKeys {
  const [newest, ...former] = rows;
  const given = new Map(decodeKeys(settings).map((key) => [computeFingerprint(key), key]));
  const key = given.get(newest.fingerprint);
  if (!key) {
    const isFormer = former.some((row) => given.has(row.fingerprint));
    throw isFormer
      ? wrong('is not the secret key of this database, which has a newer one')
      : unknownSecretKey('this database');
  }
  const others = former.map(({ number, sealed_key: sealed }) => {
    const text = open<string>(sealingKey(key), formatPurpose(number), sealed!);
    return [number, Buffer.from(text, 'base64')] as const;
  });
  return {
    byNumber: new Map([[newest.number, key], ...others]),
    current: rows.find((row) => row.is_in_use)!.number,
    given: rows.filter((row) => given.has(row.fingerprint)).map((row) => row.number),
  };
}

/** The keys of the settings, that in use first. */
function decodeKeys(settings: SecretKeySettings): Buffer[] {
  return [settings.PLATFORM_SECRET_KEY, settings.PLATFORM_PREVIOUS_SECRET_KEY]
    .filter((key) => key !== undefined)
    .map((key) => Buffer.from(key, 'base64'));
}

const wrong = (what: string) => new SettingsError(`Settings are wrong:\n  PLATFORM_SECRET_KEY: ${what}`);

/** The secret key of the settings has never been one of this database. */
export const unknownSecretKey = (database: string) =>
  wrong(
    `is not the secret key of ${database}. If it is to replace it, set the former key in PLATFORM_PREVIOUS_SECRET_KEY ` +
      'and run: npm run admin -- rotate-secret-key',
  );
