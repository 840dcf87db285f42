import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { Platform } from '../../clients/typescript/src/index.ts';
import { pushImage } from '../support/pushed-image.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { registryAddress } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { answerWith, WebhookReceiver } from '../support/webhook-receiver.ts';
import { PythonWithClient } from './installed-python.ts';
import { readPrograms } from './packed-client.ts';

const run = promisify(execFile);
const source = path.resolve(import.meta.dirname, '../../clients/python');
const checks = path.join(import.meta.dirname, 'python-checks.py');

/** The Python client, built as a wheel and installed in a separate venv, against the whole platform. */
let platform: RunningPlatform;
let python: PythonWithClient;
/** A delivery of the platform, with the public key of its endpoint. */
let delivery: object;

beforeAll(async () => {
  [python, platform] = await Promise.all([PythonWithClient.make(), RunningPlatform.shared()]);
  const { PLATFORM_URL: apiUrl = '', PLATFORM_API_KEY: apiKey = '' } = platform.env;
  const { webhooks } = new Platform({ apiUrl, apiKey });
  const receiver = await WebhookReceiver.start(answerWith(204));
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  // A family without events in these tests. Sandboxes of other tests on this platform have events.
  const { endpoint_id, public_key } = await webhooks.create(receiver.url, ['budget.*'], { secret });
  await webhooks.test(endpoint_id);
  await until(() => receiver.received.length > 0);
  delivery = { ...receiver.received[0]!, public_key };
  await webhooks.delete(endpoint_id);
  await receiver.stop();
}, 300_000);

afterAll(async () => {
  python?.remove();
  await platform?.leave();
}, 300_000);

const runPython = (more: NodeJS.ProcessEnv, ...args: string[]) => {
  const { PLATFORM_URL, PLATFORM_API_KEY } = platform.env;
  return python.run(args, { PLATFORM_URL, PLATFORM_API_KEY, ...more });
};

test('the client without asyncio is generated from the client with asyncio', async () => {
  const { stdout } = await run('python3', [path.join(source, 'generate_sync.py'), '--check']);
  expect(stdout).toBe('');
});

test.each(['sync', 'async'])(
  'every function of the installed client (%s) works',
  async (kind) => {
    const registry = await registryAddress();
    await pushImage(`http://${registry}`, 'python/app');
    const tested = { TEST_IMAGE: `${registry}/python/app`, TEST_DELIVERY: JSON.stringify(delivery) };
    const output = await runPython(tested, checks, kind);
    expect(output.trim().split('\n')).toEqual([
      ...[
        'sandboxes',
        'errors',
        'commands',
        'background',
        'handles',
        'limits',
        'files',
        'watch',
        'signed',
        'terminal',
        'code',
        'ports',
        'git',
        'restart',
        'account',
        'webhooks',
      ],
      'done',
    ]);
  },
  300_000,
);

test('every program of the README runs', async () => {
  const outputs = await Promise.all(
    readPrograms('clients/python/README.md', 'python').map(async ({ heading, source: program }) => {
      return [heading, await runPython({}, '-c', program)] as const;
    }),
  );
  expect(Object.fromEntries(outputs)).toEqual({
    'Ten lines': expect.stringMatching(/^hello from sbx-\w+\n\nkept in the sandbox\n$/),
    'With asyncio': expect.stringContaining("['0\\n', '1\\n', '2\\n']"),
    Commands: "a\nb\n3 'ada\\n'\nstdout b'a\\nb\\n'\n0 'a\\nb\\n' 0\nTrue\nnobody\n\ntimed_out\n",
    Files: expect.stringMatching(
      /^create data\.bin\n\[\('data\.bin', 3\)\]\nhttp:.*signature_expiration=\d+\n1\n\[1\]\n$/,
    ),
    Terminals: expect.stringMatching(/40 120[\s\S]*\n0\n$/),
    Code: '42 None\n',
    Ports: expect.stringMatching(/^http:\/\/8000-sbx-.*signature=v1_.*\n200\n$/),
    Git: '[]\n',
    Life: "True\npaused\nrunning\n['running']\n",
    'Templates, keys, usage and webhooks': expect.stringMatching(/^\['available'\]\nUSD\n/),
  });
}, 300_000);
