import { createHmac, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import type { WebhookEndpointId } from '../../domain/ids.ts';
import type { WebhookKeys } from './keys.ts';

/** The fields of an endpoint that determine its signatures. */
export interface SigningEndpoint {
  endpointId: WebhookEndpointId;
  keyNumber: number;
  /** The number of the secret key from which the key is derived. */
  secretKeyNumber: number;
  sealedSecret?: string | null;
  previousKeyNumber?: number | null;
  previousSecretKeyNumber?: number | null;
  previousSealedSecret?: string | null;
  previousUntil?: Date | null;
}

/**
 * The headers of Standard Webhooks: `v1a` by ed25519, and `v1` if there is a secret. For 24 hours after a roll there
 * are also signatures by the previous key.
 * Threads make the ed25519 signatures, because the main thread has all other work of the attempts.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export async function signedHeaders(
  keys: WebhookKeys,
  endpoint: SigningEndpoint,
  message: { id: string; body: string },
  now: Date,
): Promise<Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string>> {
  const timestamp = `${Math.floor(now.getTime() / 1000)}`;
  const content = Buffer.from(`${message.id}.${timestamp}.${message.body}`);
  const { endpointId, previousUntil } = endpoint;
  const overlaps = previousUntil ? previousUntil > now : false;
  const keyNumbers = [
    [endpoint.keyNumber, endpoint.secretKeyNumber] as const,
    ...(overlaps ? [[endpoint.previousKeyNumber, endpoint.previousSecretKeyNumber ?? 1] as const] : []),
  ];
  const sealed = [endpoint.sealedSecret, ...(overlaps ? [endpoint.previousSealedSecret] : [])];
  const signatures = [
    ...(await Promise.all(
      keyNumbers.flatMap(([keyNumber, secretKeyNumber]) =>
        isSet(keyNumber) ? signEd25519(content, keys.privateKey(endpointId, keyNumber, secretKeyNumber)) : [],
      ),
    )),
    ...sealed.filter(isSet).map((each) => {
      const signature = createHmac('sha256', keys.open(endpointId, each)).update(content);
      return `v1,${signature.digest('base64')}`;
    }),
  ];
  return { 'webhook-id': message.id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
}

const signInThread = promisify(sign) as (algorithm: null, data: Buffer, key: KeyObject) => Promise<Buffer>;

async function signEd25519(content: Buffer, key: KeyObject): Promise<string> {
  return `v1a,${(await signInThread(null, content, key)).toString('base64')}`;
}

function isSet<Value>(value: Value | null | undefined): value is Value {
  return value !== null && value !== undefined;
}
