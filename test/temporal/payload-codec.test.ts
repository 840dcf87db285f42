import { describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import Fastify from 'fastify';
import { codecServer } from '../../api/plugins/codec-server.ts';
import { deriveSecrets } from '../../config/secrets.ts';
import { codecAccessToken } from '../../temporal/codec-access.ts';
import { EncryptionCodec } from '../../temporal/payload-codec.ts';

const key = (fill: number) => Buffer.alloc(32, fill);
const payload = defaultPayloadConverter.toPayload({ secret: 'open sesame' })!;

describe('the payload codec', () => {
  test('gives back what it encrypted, and what is encrypted does not show it', async () => {
    const codec = new EncryptionCodec(new Map([['a', key(1)]]));
    const [sealed] = await codec.encode([payload]);
    expect(Buffer.from(sealed!.data!).includes('sesame')).toBe(false);
    const [opened] = await codec.decode([sealed!]);
    expect(defaultPayloadConverter.fromPayload(opened!)).toEqual({ secret: 'open sesame' });
  });

  test('reads what an older key wrote, and writes with the newest', async () => {
    const before = new EncryptionCodec(new Map([['old', key(1)]]));
    const after = new EncryptionCodec(
      new Map([
        ['new', key(2)],
        ['old', key(1)],
      ]),
    );
    const [sealed] = await before.encode([payload]);
    expect(await after.decode([sealed!])).toHaveLength(1);
    const [fresh] = await after.encode([payload]);
    await expect(before.decode([fresh!])).rejects.toThrow('No key with id new');
  });

  test('refuses what was changed on the way', async () => {
    const codec = new EncryptionCodec(new Map([['a', key(1)]]));
    const [sealed] = await codec.encode([payload]);
    const data = Buffer.from(sealed!.data!);
    data[20]! ^= 1;
    await expect(codec.decode([{ ...sealed, data }])).rejects.toThrow();
  });
});

describe('the codec server', () => {
  const secretKey = key(9).toString('base64');
  const secrets = deriveSecrets({ PLATFORM_SECRET_KEY: secretKey });
  const codec = new EncryptionCodec(secrets.codecKeys);
  const app = Fastify();
  app.register(codecServer, { codec, accessToken: secrets.codecAccessToken, webUiOrigin: 'http://127.0.0.1:8233' });
  const token = codecAccessToken(secretKey);

  test('shows payloads to who knows its path, the Web UI of this platform included', async () => {
    const [sealed] = await codec.encode([payload]);
    const asJson = {
      metadata: Object.fromEntries(
        Object.entries(sealed!.metadata!).map(([name, value]) => [name, Buffer.from(value).toString('base64')]),
      ),
      data: Buffer.from(sealed!.data!).toString('base64'),
    };
    const reply = await app.inject({ method: 'POST', url: `/codec/${token}/decode`, payload: { payloads: [asJson] } });
    expect(reply.statusCode).toBe(200);
    expect(reply.headers['access-control-allow-origin']).toBe('http://127.0.0.1:8233');
    expect(Buffer.from(reply.json().payloads[0].data, 'base64').toString()).toBe('{"secret":"open sesame"}');
    const preflight = await app.inject({ method: 'OPTIONS', url: `/codec/${token}/decode` });
    expect(preflight.statusCode).toBe(204);
  });

  test.each([{}, { payloads: null }, { payloads: [] }])('has nothing to show of %j', async (body) => {
    const reply = await app.inject({ method: 'POST', url: `/codec/${token}/decode`, payload: body });
    expect(reply.json()).toEqual({ payloads: [] });
  });

  test('is not there for anyone else', async () => {
    const reply = await app.inject({ method: 'POST', url: '/codec/guess/decode', payload: { payloads: [] } });
    expect(reply.statusCode).toBe(404);
  });
});
