import { RunningPlatform } from '../../support/running-platform.ts';
import { readPrograms } from '../packed-client.ts';
import { PythonWithAdapter } from './python-with-adapter.ts';

let platform: RunningPlatform;
let python: PythonWithAdapter;

beforeAll(async () => {
  const packages = ['deepagents==0.7.32', 'langchain-tests==1.1.9'];
  [python, platform] = await Promise.all([PythonWithAdapter.make('deepagents', packages), RunningPlatform.shared()]);
}, 900_000);

afterAll(async () => {
  python?.remove();
  await platform?.leave();
}, 300_000);

const environment = () => {
  const { PLATFORM_URL, PLATFORM_API_KEY } = platform.env;
  return { PLATFORM_URL, PLATFORM_API_KEY };
};

test('the standard tests of LangChain for sandboxes pass, except those that deepagents itself does not pass', async () => {
  const outcome = await python.runPytest('deepagents_checks.py', environment(), '--asyncio-mode=auto');
  expect(outcome).toBe('84 passed, 7 xfailed');
}, 300_000);

test('the program of the README runs', async () => {
  const [program] = readPrograms('clients/integrations/deepagents/README.md', 'python');
  const printed = await python.run('python', ['-c', program!.source], environment());
  expect(printed).toMatch(/^45\nsbx-\w+\n/);
}, 300_000);
