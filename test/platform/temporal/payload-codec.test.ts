import { describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { deriveSecrets } from '../../../platform/config/secrets.ts';
import { codecAccessToken } from '../../../platform/temporal/codec-access.ts';
import { EncryptionCodec } from '../../../platform/temporal/payload-codec.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';

const key = (fill: number) => Buffer.alloc(32, fill);
const payload = defaultPayloadConverter.toPayload({ secret: 'open sesame' })!;

describe('the payload codec', () => {
  test('decrypts what it encrypted, and the encrypted form does not reveal it', async () => {
    const codec = new EncryptionCodec({ codecKeys: new Map([['a', key(1)]]) });
    const [sealed] = await codec.encode([payload]);
    expect(Buffer.from(sealed!.data!).includes('sesame')).toBe(false);
    const [opened] = await codec.decode([sealed!]);
    expect(defaultPayloadConverter.fromPayload(opened!)).toEqual({ secret: 'open sesame' });
  });

  test('decrypts with older keys, and encrypts with the newest', async () => {
    const before = new EncryptionCodec({ codecKeys: new Map([['old', key(1)]]) });
    const after = new EncryptionCodec({
      codecKeys: new Map([
        ['new', key(2)],
        ['old', key(1)],
      ]),
    });
    const [sealed] = await before.encode([payload]);
    expect(await after.decode([sealed!])).toHaveLength(1);
    const [fresh] = await after.encode([payload]);
    await expect(before.decode([fresh!])).rejects.toThrow('No key with id new');
  });

  test('refuses changed payloads', async () => {
    const codec = new EncryptionCodec({ codecKeys: new Map([['a', key(1)]]) });
    const [sealed] = await codec.encode([payload]);
    const data = Buffer.from(sealed!.data!);
    data[20]! ^= 1;
    await expect(codec.decode([{ ...sealed, data }])).rejects.toThrow();
  });
});

describe('the codec server', () => {
  let api: TestApi;
  let app: TestApi['app'];
  let codec: EncryptionCodec;
  let token: string;
  beforeAll(async () => {
    api = await startApi({
      env: { TEMPORAL_UI_URL: 'http://127.0.0.1:8233/', PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' },
    });
    app = api.app;
    codec = new EncryptionCodec(deriveSecrets(api.settings));
    token = codecAccessToken(api.settings.PLATFORM_SECRET_KEY);
  });
  afterAll(() => api.stop());

  async function sealed(of = payload) {
    const [{ metadata, data }] = (await codec.encode([of])) as [typeof payload];
    return {
      metadata: Object.fromEntries(
        Object.entries(metadata!).map(([name, value]) => [name, Buffer.from(value).toString('base64')]),
      ),
      data: Buffer.from(data!).toString('base64'),
    };
  }
  const decode = (body: unknown) =>
    app.inject({
      method: 'POST',
      url: `/codec/${token}/decode`,
      headers: { 'content-type': 'application/json' },
      payload: JSON.stringify(body),
    });

  test('shows payloads to clients that know its path, such as the platform’s Web UI', async () => {
    const reply = await decode({ payloads: [await sealed()] });
    expect(reply.statusCode).toBe(200);
    expect(reply.headers['access-control-allow-origin']).toBe('http://127.0.0.1:8233');
    expect(Buffer.from(reply.json().payloads[0].data, 'base64').toString()).toBe('{"secret":"open sesame"}');
    const preflight = await app.inject({ method: 'OPTIONS', url: `/codec/${token}/decode` });
    expect(preflight.statusCode).toBe(204);
  });

  test.each([{}, { payloads: null }, { payloads: [] }])('returns nothing for %j', async (body) => {
    expect((await decode(body)).json()).toEqual({ payloads: [] });
  });

  test('an undecryptable payload is identified without its content', async () => {
    const good = await sealed();
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const changed = { ...good, data: base64('x'.repeat(64)) };
    const short = { ...good, data: base64('x') };
    const unknownKey = { ...good, metadata: { ...good.metadata, 'encryption-key-id': base64('k'.repeat(10_000)) } };
    for (const [bad, reason] of [
      [changed, 'was changed'],
      [short, 'is too short'],
      [unknownKey, 'No key with id kkk'],
      [{ metadata: { encoding: 7 } }, 'is not a payload'],
      ['text', 'is not a payload'],
      [null, 'is not a payload'],
    ] as const) {
      const reply = await decode({ payloads: [good, good, bad] });
      expect([reply.statusCode, reply.json().code]).toEqual([400, 'validation_failed']);
      expect(reply.json().details[0].path).toBe('payloads.2');
      expect(reply.json().error).toContain(reason);
      expect(reply.body.length).toBeLessThan(1000);
      expect(reply.headers['access-control-allow-origin']).toBe('http://127.0.0.1:8233');
    }
    for (const bad of [[], 'text', { payloads: {} }, { payloads: 7 }]) {
      expect((await decode(bad)).statusCode).toBe(400);
    }
  });

  test('many small payloads and one large one come back in order', async () => {
    const small = await sealed();
    const large = await sealed(defaultPayloadConverter.toPayload('x'.repeat(2_000_000))!);
    const payloads = [...Array(500).fill(small), large, small];
    const reply = await decode({ payloads });
    expect(reply.statusCode).toBe(200);
    expect(reply.json().payloads.map((each: { data: string }) => each.data.length)).toEqual(
      payloads.map((each) => (each === large ? 2_666_672 : 32)),
    );
  });

  test('a few concurrent requests are decoded, further ones must be retried', async () => {
    const body = { payloads: [await sealed(defaultPayloadConverter.toPayload('x'.repeat(1_000_000))!)] };
    const replies = await Promise.all(Array.from({ length: 30 }, () => decode(body)));
    const statuses = replies.map((reply) => reply.statusCode);
    expect(statuses).toContain(200);
    expect(statuses.some((status) => status === 503 || status === 429)).toBe(true);
    expect(statuses.filter((status) => ![200, 429, 503].includes(status))).toEqual([]);
    expect((await decode(body)).statusCode).toBe(200);
  });

  test('with another token the route does not exist, and the body is not read', async () => {
    for (const method of ['POST', 'OPTIONS'] as const) {
      const reply = await app.inject({
        method,
        url: '/codec/guess/decode',
        headers: { 'content-type': 'application/json' },
        payload: '{"broken',
      });
      expect([reply.statusCode, reply.json().code]).toEqual([404, 'route_not_found']);
      expect(reply.headers['access-control-allow-origin']).toBeUndefined();
    }
  });
});
