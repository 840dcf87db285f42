import { z } from 'zod';
import type { Api } from '../../api/dependencies.ts';
import { validatorCompiler } from '../../api/plugins/validation.ts';
import { routes } from '../../api/routes/index.ts';
import { counted, positiveInt } from '../../api/schemas/fields.ts';
import type { AppError } from '../../domain/errors.ts';
import type { Json } from './contract-client.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

/** The error of a request with a wrong part. */
function refusal(schema: z.ZodType, value: unknown, httpPart = 'body'): AppError | null {
  const validate = validatorCompiler({ schema, httpPart, method: 'POST', url: '/' });
  return (validate(value) as { error?: AppError }).error ?? null;
}

test.each<[kind: string, schema: z.ZodType, value: unknown, text: string]>([
  ['a missing text', z.string(), undefined, 'is required'],
  ['a missing word', z.enum(['a', 'b']), undefined, 'is required'],
  ['a missing literal', z.literal('a'), undefined, 'is required'],
  ['a missing union', z.union([z.string(), z.number()]), undefined, 'is required'],
  ['no text', z.string(), 5, 'must be a text'],
  ['no number', z.number(), '5', 'must be a number'],
  ['no finite number', z.number(), Number.NaN, 'must be a number'],
  ['no whole number', positiveInt(), 1.5, 'must be a whole number'],
  ['no flag', z.boolean(), 'yes', 'must be true or false'],
  ['no list', z.array(z.string()), {}, 'must be a list'],
  ['no tuple', z.tuple([z.string()]), {}, 'must be a list'],
  ['no object', z.object({}), [], 'must be an object'],
  ['no record', z.record(z.string(), z.string()), 'a', 'must be an object'],
  ['no null', z.null(), 'a', 'must be null'],
  ['no time', z.date(), 'a', 'must be a time'],
  ['no bigint', z.bigint(), 'a', 'must be of another type'],
  ['another word', z.enum(['a', 'b', 'c']), 'd', 'must be a, b or c'],
  ['another literal', z.literal('a'), 'b', 'must be a'],
  ['another number', z.literal([1, 2]), 3, 'must be 1 or 2'],
  ['a long text', z.string().max(64), 'a'.repeat(65), 'must have at most 64 characters'],
  ['a short text', z.string().min(2), 'a', 'must have at least 2 characters'],
  ['a text of another length', z.string().length(1), 'ab', 'must have at most 1 character'],
  ['an empty text', z.string().min(1), '', 'must not be empty'],
  ['a long list', z.array(z.string()).max(1), ['a', 'b'], 'must have at most 1 item'],
  ['an empty list', z.array(z.string()).min(1), [], 'must not be empty'],
  ['a large number', z.number().max(5), 6, 'must be at most 5'],
  ['a number at its bound', z.number().lt(5), 5, 'must be less than 5'],
  ['a small number', z.number().min(60), 59, 'must be at least 60'],
  ['zero', z.number().gt(0), 0, 'must be greater than 0'],
  ['a number of another step', z.number().multipleOf(5), 6, 'must be a multiple of 5'],
  ['another prefix', z.string().startsWith('s3://'), 'http://', 'must start with s3://'],
  ['another suffix', z.string().endsWith('.tar'), 'a', 'must end with .tar'],
  ['another part', z.string().includes('@'), 'a', 'must contain @'],
  ['another form', z.string().regex(/^a$/), 'b', 'has the wrong form'],
  ['no base64', z.base64(), '?', 'must be base64'],
  [
    'members of a union',
    z.union([z.string(), z.number(), z.boolean()]),
    [],
    'must be a text, a number or true or false',
  ],
  [
    'no member of a union',
    z.union([z.string().max(1), z.string().min(5)]),
    'ab',
    'must have at most 1 character or must have at least 5 characters',
  ],
  [
    'another discriminator',
    z.discriminatedUnion('kind', [z.object({ kind: z.literal('a') }), z.object({ kind: z.literal('b') })]),
    { kind: 'c' },
    'must be a or b',
  ],
  [
    'another name',
    z.record(z.string().regex(/^a/, 'must begin with a'), z.any()),
    { b: 1 },
    'is a name that must begin with a',
  ],
  ['unknown fields', z.strictObject({}), { a: 1, b: 2 }, 'must not have a or b'],
  [
    'many members',
    counted(1, 'keys', z.record(z.string(), z.string())),
    { a: 'a', b: 'b' },
    'must have at most 1 keys',
  ],
  ['a text of the schema', z.string().refine(() => false, 'must be another'), 'a', 'must be another'],
  ['a rule without a text', z.string().refine(() => false), 'a', 'is not valid'],
])('%s is refused with a sentence', (_kind, schema, value, text) => {
  const { message, details, code } = refusal(z.object({ field: schema }), { field: value })!;
  expect(details!.map(({ reason }) => reason)).toEqual([text]);
  expect([code, message]).toEqual(['validation_failed', `${details![0]!.path} ${text}`]);
});

test('several wrong fields, a wrong body and a repeated parameter are sentences', async () => {
  const body = { name: 5, timeout: 10, cpu_count: 1.5, custom_ports: [{ port: 0 }] };
  const reply = await api.send(api.root, 'POST', '/v1/sandboxes', body);
  expect([reply.status, reply.body.error]).toEqual([
    400,
    'name must be a text; cpu_count must be a whole number; timeout must be at least 60 seconds; ' +
      'custom_ports.0.port must be at least 1; custom_ports.0.name is required',
  ]);
  const wrong = await api.send(api.root, 'POST', '/v1/sandboxes', []);
  expect([wrong.status, wrong.body.error]).toEqual([400, 'The body must be an object']);
  const repeated = await api.send(api.root, 'GET', '/v1/sandboxes?limit=1&limit=2&status=a');
  const statuses = 'created, starting, running, pausing, paused, resuming, terminating, terminated or failed';
  expect(repeated.body.error).toBe(`limit must be given once; status must be ${statuses}`);
});

const words = 'x'.repeat(70_000);
const scalars = [
  5,
  -1,
  0,
  1.5,
  1e300,
  '',
  ' ',
  'x',
  '\u0007',
  '../x',
  'http://[',
  words,
  true,
  [],
  [[]],
  {},
  { '': {} },
];

/** Values that are wrong somewhere within, made from a JSON schema. */
function* wrongValues(schema: Json, root: Json, depth = 0): Generator<unknown> {
  yield* scalars;
  if (depth > 4) return;
  const at = schema.$ref ? root.$defs[schema.$ref.split('/').at(-1)] : schema;
  for (const member of [...(at.anyOf ?? []), ...(at.oneOf ?? []), ...(at.allOf ?? [])]) {
    yield* wrongValues(member, root, depth + 1);
  }
  for (const [name, property] of Object.entries(at.properties ?? {})) {
    for (const value of wrongValues(property, root, depth + 1)) yield { [name]: value };
  }
  if (typeof at.items === 'object') {
    for (const value of wrongValues(at.items, root, depth + 1)) yield [value];
    yield Array(300).fill('x');
  }
  if (typeof at.additionalProperties === 'object') {
    for (const value of wrongValues(at.additionalProperties, root, depth + 1)) yield { key: value };
    yield Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`k${index}`, 'x']));
  }
}

test('every refusal of every route is a sentence without terms of the validator', () => {
  const found: { url: string; httpPart: string; schema: z.ZodType }[] = [];
  const collect = {
    // The one scope of its own has a body without a schema.
    register: () => {},
    addHook: () => {},
    route: ({ url, schema }: Json) => {
      for (const httpPart of ['body', 'querystring', 'params', 'headers']) {
        if (schema?.[httpPart]) found.push({ url, httpPart, schema: schema[httpPart] });
      }
    },
  };
  for (const route of routes) route(collect as unknown as Api, api.dependencies);
  expect(found.length).toBeGreaterThan(100);
  const reasons = new Set<string>();
  for (const { url, httpPart, schema } of found) {
    const described: Json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
    for (const value of wrongValues(described, described)) {
      const error = refusal(schema, value, httpPart);
      for (const { reason } of error?.details ?? []) {
        reasons.add(reason);
        expect([url, reason]).toEqual([url, expect.stringMatching(/^(must|is) [a-zA-Z0-9]/)]);
      }
      if (error) expect(error.message).toMatch(/^\S.* (must|is) /);
    }
  }
  const jargon = /invalid|expected|received|too (big|small)|\bstring\b|NaN|undefined|pattern|not valid$|wrong form/i;
  expect([...reasons].filter((reason) => jargon.test(reason))).toEqual([]);
  expect(reasons.size).toBeGreaterThan(50);
});
