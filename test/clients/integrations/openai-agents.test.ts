import { RunningPlatform } from '../../support/running-platform.ts';
import { readPrograms } from '../packed-client.ts';
import { PythonWithAdapter } from './python-with-adapter.ts';

let platform: RunningPlatform;
let python: PythonWithAdapter;

beforeAll(async () => {
  const packages = ['openai-agents==0.24.0'];
  [python, platform] = await Promise.all([PythonWithAdapter.make('openai-agents', packages), RunningPlatform.shared()]);
}, 900_000);

afterAll(async () => {
  python?.remove();
  await platform?.leave();
}, 300_000);

const environment = () => {
  const { PLATFORM_URL, PLATFORM_API_KEY } = platform.env;
  return { PLATFORM_URL, PLATFORM_API_KEY };
};

test('agents work in sandboxes, with users, timeouts, files, ports, pauses and snapshots', async () => {
  expect(await python.runPytest('openai_agents_checks.py', environment())).toBe('6 passed');
}, 300_000);

test('the program of the README runs', async () => {
  const [program] = readPrograms('clients/integrations/openai-agents/README.md', 'python');
  const printed = await python.run('python', ['-c', program!.source], environment());
  expect(printed).toMatch(/Process exited with code 0\nOutput:\n45\n/);
}, 300_000);
