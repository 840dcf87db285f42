import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
});
afterAll(() => api.stop());

const mebibyte = 1024 * 1024;
const post = (rawBody: string, url = '/v1/sandboxes') =>
  api.send(api.root, 'POST', url, undefined, { rawBody, contentType: 'application/json' });
const many = (count: number, item: string) => Array(Math.floor(count)).fill(item).join(',');
const nested = (depth: number, [open, close]: [string, string]) =>
  `{"metadata":${open.repeat(depth)}1${close.repeat(depth)}}`;

describe('JSON beyond a limit is a clear 400', () => {
  test.each([
    ['arrays of 5,000 levels', nested(5000, ['[', ']']), 'nested more than 32 levels'],
    ['objects of 5,000 levels', nested(5000, ['{"a":', '}']), 'nested more than 32 levels'],
    ['100,000 open brackets', '['.repeat(100_000), 'nested more than 32 levels'],
    ['300,000 empty objects', `{"object_storage":[${many(300_000, '{}')}]}`, 'more than 2000 values'],
    ['500,000 numbers', `{"custom_ports":[${many(500_000, '1')}]}`, 'more than 2000 values'],
    ['many keys', `{${Array.from({ length: 1600 }, (_, i) => `"k${i}":1`).join()}}`, 'more than 1500 keys'],
    ['one key many times', `{${many(1600, '"name":"x"')}}`, 'more than 1500 keys'],
    ['a key of 300 kB', `{"${'k'.repeat(300_000)}":1}`, 'a key of more than 1024 characters'],
    ['a key of 300 kB of escapes', `{"metadata":{"${'\\"'.repeat(150_000)}":1}}`, 'a key of more than 1024 characters'],
    ['a number of a million digits', `{"cpu_count":${'9'.repeat(1_000_000)}}`, 'a number of more than 64 characters'],
    ['a fraction of a million digits', `[0.${'0'.repeat(1_000_000)}1]`, 'a number of more than 64 characters'],
    ['1,000 numbers of 1,000 digits', `[${many(1000, `1e-${'9'.repeat(997)}`)}]`, 'a number of more than 64'],
    [
      '70,000 NULs below a key of 300 kB',
      `{"${'k'.repeat(300_000)}":[${many(70_000, '"\\u0000"')}]}`,
      'a key of more than',
    ],
  ])('%s', async (_what, body, reason) => {
    const reply = await post(body);
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
    expect(reply.body.error).toContain(reason);
    expect(reply.text.length).toBeLessThan(500);
  });

  test('depth is that of the structure, not of brackets in text', async () => {
    const reply = await post(JSON.stringify({ description: '[{'.repeat(400), template: 'a\\"[[' }));
    expect(reply.body.code).toBe('template_not_found');
  });

  test.each([['env_vars'], ['metadata']])('a value of %s at its limit is accepted', async (field) => {
    const count = field === 'metadata' ? 100 : 256;
    const pairs = Object.fromEntries(Array.from({ length: count }, (_, i) => [`KEY_${i}`, '\u00e9'.repeat(400)]));
    const escaped = JSON.stringify({ [field]: pairs }).replaceAll('\u00e9', '\\u00e9');
    expect(escaped.length).toBeGreaterThan(count * 2400);
    expect((await post(escaped)).status).toBe(201);
  });
});

describe('the reply to an invalid body is small, regardless of the body', () => {
  const wrong: [string, string][] = [
    ['1,900 wrong variables', `{"env_vars":{${Array.from({ length: 1400 }, (_, i) => `"${i}${'v'.repeat(600)}":1`)}}}`],
    ['1,900 wrong mounts', `{"object_storage":[${many(990, '{}')}]}`],
    ['1,900 wrong ports', `{"custom_ports":[${many(1900, '{}')}]}`],
    ['1,900 NULs', `{"metadata":{"${'k'.repeat(1000)}":[${many(1900, '"\\u0000"')}]}}`],
    ['an enormous number', `{"cpu_count":1${'0'.repeat(900_000)}}`],
    ['an enormous exponent', '{"cpu_count":1e999999,"memory_mb":-1e999999}'],
    ['an enormous text', `{"template":"${'x'.repeat(1_000_000)}"}`],
    ['text that a pattern nearly matches', `{"custom_ports":[{"port":1,"name":"${'a.-'.repeat(300_000)}!"}]}`],
    ['a path that a pattern nearly matches', `{"s3fs_executable_path":"/${'a'.repeat(900_000)} "}`],
    [
      'keys of the prototype',
      '{"metadata":{"constructor":{"prototype":1},"toString":[]},"env_vars":{"hasOwnProperty":1}}',
    ],
  ];
  test.each(wrong)('%s', async (_what, body) => {
    expect(body.length).toBeLessThan(mebibyte);
    const reply = await post(body);
    expect(reply.status).toBe(400);
    expect(reply.text.length).toBeLessThan(20_000);
    expect((reply.body.details ?? []).length).toBeLessThanOrEqual(20);
  });

  test('of a batch and of a resume', async () => {
    for (const [url, body] of [
      ['/v1/sandboxes/batch-delete', `{"sandbox_ids":[${many(1900, '1')}]}`],
      ['/v1/sandboxes/sbx-x/resume', `{"object_storage":{"mounts":[${many(600, '{"delete":7}')}]}}`],
    ] as const) {
      const reply = await post(body, url);
      expect([url, reply.status]).toEqual([url, 400]);
      expect(reply.text.length).toBeLessThan(20_000);
      expect(reply.body.details.length).toBeLessThanOrEqual(20);
    }
  });

  test('names of built-in object properties are ordinary names of fields and codes', async () => {
    for (const name of ['constructor', 'toString', 'valueOf', 'hasOwnProperty']) {
      expect((await post(JSON.stringify({ [name]: 'x', metadata: { [name]: 'y' } }))).status).toBe(201);
      expect((await api.send(api.root, 'GET', `/v1/sandboxes?sort_by=${name}`)).status).toBe(400);
      expect((await api.send(api.root, 'GET', `/v1/sandboxes?${name}=1&metadata=${name}%3D1`)).status).toBe(200);
    }
  });
});

describe('queries, encodings and types', () => {
  test('more than 100 parameters are 400, repeated ones too', async () => {
    const distinct = Array.from({ length: 101 }, (_, i) => `p${i}=1`).join('&');
    for (const query of [distinct, many(101, 'status=running').replaceAll(',', '&')]) {
      const reply = await api.send(api.root, 'GET', `/v1/sandboxes?${query}`);
      expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
      expect(reply.body.error).toContain('more than 100 parameters');
    }
  });

  test.each(['gzip', 'deflate', 'br', 'gzip, identity'])('a body in %s is 415, and is not read', async (encoding) => {
    const reply = await api.send(api.root, 'POST', '/v1/projects', undefined, {
      rawBody: '{}',
      contentType: 'application/json',
      headers: { 'content-encoding': encoding },
    });
    expect([reply.status, reply.body.code]).toEqual([415, 'unsupported_media_type']);
  });
});

/** Milliseconds of processor time, the minimum of some rounds, so that other programs on the machine do not count. */
async function cost(send: () => Promise<unknown>): Promise<number> {
  const rounds: number[] = [];
  for (let round = 0; round < 7; round++) {
    const before = process.cpuUsage();
    await send();
    const { user, system } = process.cpuUsage(before);
    rounds.push((user + system) / 1000);
  }
  return Math.min(...rounds);
}

/**
 * Multiples of the cost of an ordinary body. Quadratic work would take a thousand times as long or more. The target of
 * three times is measured by `bench/bodies`: it depends on the processor and on other load.
 */
const linear = 100;

test.each([
  ['/v1/sandboxes', 'template_not_found'],
  ['/v1/sandboxes/none/exec', 'not_found'],
])('the cost of a body for %s is linear in its size, regardless of its content', async (url, code) => {
  const size = 1_000_000;
  /** Valid except for its template, so that both kinds of body end in validation or right after it. */
  const ordinary = JSON.stringify({
    template: 'none',
    command: 'true',
    metadata: Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`key-${i}`, 'v'.repeat(2000)])),
    ignored: Array.from({ length: 100 }, () => 'i'.repeat((size - 210_000) / 100)),
  });
  const worst: [string, string][] = [
    ['brackets', '['.repeat(size)],
    ['empty objects', `[${many(size / 3, '{}')}]`],
    ['just as many objects as pass', `{"object_storage":[${many(990, '{}')}],"x":"${'x'.repeat(size)}"}`],
    ['just as many wrong ports as pass', `{"custom_ports":[${many(1900, '0')}],"x":"${'x'.repeat(size)}"}`],
    ['wrong variables', `{"env_vars":{${Array.from({ length: 1400 }, (_, i) => `"${i}${'-'.repeat(600)}":0`)}}}`],
    ['escapes', `{"description":"${'\\u0000'.repeat(size / 6)}"}`],
    ['quotes', `{"description":"${'\\"'.repeat(size / 2)}"}`],
    ['NULs', `{"metadata":{"${'k'.repeat(1000)}":[${many(1900, `"${'x'.repeat(400)}\\u0000"`)}]}}`],
    ['digits', `{"cpu_count":${'9'.repeat(size - 100)}}`],
    ['numbers of 900 digits', `{"custom_ports":[${many(1100, `1.${'7'.repeat(900)}e-300`)}]}`],
    ['nearly a name of a port', `{"custom_ports":[{"name":"${'a-'.repeat(size / 2)}"}]}`],
    ['white space', `{"template":"none"}${' '.repeat(size)}`],
    ['spelled prototype', `{"template":"none","x":"${'\\"__proto_'.repeat(size / 10)}"}`],
  ];
  const expected = await cost(() => post(ordinary, url));
  expect((await post(ordinary, url)).body.code).toBe(code);
  for (const [name, body] of worst) {
    const ratio = (await cost(() => post(body, url))) / expected;
    expect([name, ratio <= linear ? 'linear' : ratio]).toEqual([name, 'linear']);
  }
});
