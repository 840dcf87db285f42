import { ContextService, ExecutionService } from '../../agent/proto/gen/sandboxagent_pb.js';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { interpreterRecipes } from '../../runtime/images/builtin-images.ts';
import { LocalHost, shell } from '../runtime/local-host.ts';

/** The first create makes the image: about five minutes. */
let host: LocalHost;
let spec: SandboxSpec;
let place: SandboxPlace;
let agent: AgentClient;

beforeAll(async () => {
  host = await LocalHost.open({ interpreterRecipes });
  spec = host.spec({ image: 'builtin:code-interpreter-all', cpuCount: 1, memoryMb: 1024, storageGb: 4 });
  place = await host.driver.create(spec);
  agent = new AgentClient(`${place.address}:${place.agentPort}`, spec.accessToken);
}, 1_200_000);
afterAll(() => host.closeEmpty());

async function run(language: string, code: string, contextId = '') {
  const found = { stdout: '', text: '', png: '', error: '' };
  for await (const { event } of agent.client(ExecutionService).execute({ language, code, contextId })) {
    if (event.case === 'stdout') found.stdout += event.value.content;
    if (event.case === 'error') found.error += `${event.value.name}: ${event.value.value}`;
    if (event.case !== 'result') continue;
    found.text = event.value.text || found.text;
    found.png += event.value.png;
  }
  return found;
}

test.each([
  ['r', 'x <- 40', 'x + 2', '[1] 42'],
  ['java', 'int x = 40;', 'x + 2', '42'],
  ['python', 'x = 40', 'x + 2', '42'],
  ['typescript', 'const x: number = 40', 'x + 2', '42'],
  ['deno', 'const y: number = 40', 'y + 2', '42'],
  ['javascript', 'var x = 40', 'x + 2', '42'],
])(
  '%s keeps its state in a context and in the default one',
  async (language, first, second, text) => {
    const { id } = await agent.client(ContextService).createContext({ language });
    for (const contextId of [id, '']) {
      expect((await run(language, first, contextId)).error).toBe('');
      const { text: result, error } = await run(language, second, contextId);
      expect([result.trim(), error]).toEqual([text, '']);
    }
  },
  180_000,
);

test('errors have their names', async () => {
  expect((await run('r', 'stop("not so")')).error).toMatch(/not so/);
  expect((await run('java', 'throw new IllegalStateException("not so");')).error).toMatch(/not so/);
}, 180_000);

test('R, Java and Deno are available as programs for every user', async () => {
  const script = `cd /tmp; R --version | head -1; java -version 2>&1 | head -1; deno eval 'console.log(40 + 2)'; node --version
su user -c "deno eval 'console.log(1)'; Rscript -e 'cat(2)'"`;
  const { output } = await shell(place, spec, script, 120);
  expect(output).toMatch(/^R version .*\n.*openjdk version.*\n42\nv24\..*\n1\n2$/);
}, 180_000);

test('programs use the sizes of the sandbox, not of its host', async () => {
  const java = `cat >/tmp/Size.java <<'END'
class Size { public static void main(String[] args) {
  var system = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
  System.out.println(Runtime.getRuntime().availableProcessors() + " " + (system.getTotalMemorySize() >> 20)
    + " " + (Runtime.getRuntime().maxMemory() < (600L << 20)));
} }
END
cd /tmp && java Size.java`;
  expect((await shell(place, spec, java, 120)).output).toBe('1 1024 true');
  const python =
    'import os, psutil; [os.cpu_count(), len(os.sched_getaffinity(0)), psutil.cpu_count(), psutil.virtual_memory().total >> 20]';
  expect((await run('python', python)).text).toBe('[1, 1, 1, 1024]');
  expect((await run('r', 'parallel::detectCores()')).text.trim()).toBe('[1] 1');
}, 180_000);
