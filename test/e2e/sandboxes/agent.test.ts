import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import {
  ContextService,
  type ExecuteRequestSchema,
  ExecutionService,
  Process,
  type Result,
} from '../../../agent/proto/gen/sandboxagent_pb.js';
import type { AgentClient } from '../../../ops/development/client/agent-client.ts';
import type { SandboxView } from '../../../ops/development/client/platform-client.ts';
import { Terminal } from '../../agent/support/terminal.ts';
import { RunningPlatform } from '../../support/running-platform.ts';

/** The agent in sandboxes of the whole platform, called through the gateway as its users do. */
let platform: RunningPlatform;
const opened: { agent: AgentClient; sandbox: SandboxView }[] = [];

beforeAll(async () => {
  platform = await RunningPlatform.shared();
}, 180_000);

afterAll(async () => {
  for (const { agent } of opened) agent.close();
  await platform?.leave();
}, 180_000);

async function open(wanted: Record<string, unknown>): Promise<{ agent: AgentClient; sandbox: SandboxView }> {
  const sandbox = await platform.client().createSandbox(wanted);
  const made = { agent: platform.agent(sandbox), sandbox };
  opened.push(made);
  return made;
}

describe('the template code-interpreter', () => {
  let agent: AgentClient;
  let contextId: string;

  beforeAll(async () => {
    const { agent: opened, sandbox } = await open({ template: 'code-interpreter' });
    expect(sandbox).toMatchObject({ cpu_count: 2, memory_mb: 1024 });
    agent = opened;
    contextId = (await agent.client(ContextService).createContext({ language: 'python' })).id;
  }, 300_000);

  async function run(request: MessageInitShape<typeof ExecuteRequestSchema>, signal?: AbortSignal) {
    const found = { stdout: '', stderr: '', results: [] as Result[], error: '', traceback: '' };
    for await (const { event } of agent.client(ExecutionService).execute(request, { ...(signal && { signal }) })) {
      if (event.case === 'stdout' || event.case === 'stderr') found[event.case] += event.value.content;
      else if (event.case === 'result') found.results.push(event.value);
      else if (event.case === 'error') {
        found.error = `${event.value.name}: ${event.value.value}`;
        found.traceback = event.value.traceback;
      }
    }
    return found;
  }

  test('runs Python with pandas in a context that keeps its state', async () => {
    await run({ contextId, code: 'import pandas\ntable = pandas.DataFrame({"city": ["Oslo", "Rome"], "n": [3, 4]})' });
    const { stdout, results } = await run({ contextId, code: 'print(table.n.sum())\ntable' });
    expect(stdout).toBe('7\n');
    expect(results).toHaveLength(1);
    expect(results[0]).toMatchObject({ isMainResult: true, exitCode: 0, executionCount: 2 });
    expect(results[0]!.text).toMatch(/city\s+n\n0\s+Oslo\s+3\n1\s+Rome\s+4/);
    expect(results[0]!.html).toContain('<td>Oslo</td>');
  });

  test('starts contexts in /workspace, where every user may write', async () => {
    const context = await agent.client(ContextService).createContext({ language: 'bash' });
    expect(context.cwd).toBe('/workspace');
    const { stdout } = await run({ contextId: context.id, code: 'touch here && stat -c "%a %U" . && pwd' });
    expect(stdout).toBe('1777 root\n/workspace\n');
  });

  test('gives a plot of matplotlib as png and as chart', async () => {
    const code = `
import matplotlib.pyplot as plt
plt.bar(["Oslo", "Rome"], [3, 4], label="visits")
plt.title("Visits")
plt.show()`;
    const { results, error } = await run({ contextId, code });
    expect(error).toBe('');
    const plot = results.find(({ png }) => png !== '')!;
    const png = Buffer.from(plot.png, 'base64');
    expect(png.subarray(0, 8)).toEqual(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'));
    expect([png.readUInt32BE(16), png.readUInt32BE(20)].every((side) => side > 300)).toBe(true);
    expect(plot.chart).toMatchObject({
      type: 'bar',
      title: 'Visits',
      elements: [
        { element: { case: 'barData', value: { label: 'Oslo', group: 'visits', value: '3' } } },
        { element: { case: 'barData', value: { label: 'Rome', group: 'visits', value: '4' } } },
      ],
    });
  });

  test('reports an error by name, value and traceback', async () => {
    const { error, traceback } = await run({ contextId, code: 'def half(n):\n    return n / 0\nhalf(1)' });
    expect(error).toBe('ZeroDivisionError: division by zero');
    expect(traceback).toMatch(/half\(1\)[\s\S]*return n \/ 0[\s\S]*ZeroDivisionError/);
  });

  test('shows output while code runs, and interrupts it when its client leaves', async () => {
    const leave = new AbortController();
    let seen = '';
    const endless = async () => {
      const code =
        'import time\ncount = 0\nwhile True:\n    count += 1\n    print("turn", count, flush=True)\n    time.sleep(0.05)';
      const events = agent.client(ExecutionService).execute({ contextId, code }, { signal: leave.signal });
      for await (const { event } of events) {
        if (event.case === 'stdout') seen += event.value.content;
        if (seen.includes('turn 3')) leave.abort();
      }
    };
    await expect(endless()).rejects.toThrow(/cancel|abort/i);
    const { results } = await run({ contextId, code: 'count >= 3' });
    expect(results[0]!.text).toBe('True');
  });

  test('runs JavaScript, TypeScript and Bash, and reports what R and Java would need', async () => {
    const text = async (language: string, code: string) => (await run({ language, code })).results.at(-1)!.text;
    expect(await text('javascript', 'await Promise.resolve(6 * 7)')).toBe('42');
    expect(await text('typescript', 'const n: number = 6; n * 7')).toBe('42');
    expect((await run({ language: 'bash', code: 'echo $((6 * 7))' })).stdout).toBe('42\n');
    await expect(run({ language: 'r', code: '1' })).rejects.toThrow(/failed_precondition/);
    await expect(run({ language: 'java', code: '1' })).rejects.toThrow(/failed_precondition/);
  });
});

test('contexts start until the memory ends, then are refused, and those that run stay', async () => {
  const { agent } = await open({ template: 'code-interpreter', memory_mb: 512 });
  const contexts = agent.client(ContextService);
  const made: string[] = [];
  const refused = await (async () => {
    for (;;) made.push((await contexts.createContext({ language: 'python' })).id);
  })().catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: Code.ResourceExhausted, rawMessage: expect.stringContaining('memory') });
  expect(made.length).toBeGreaterThan(2);
  const texts: string[] = [];
  for (const contextId of made) {
    for await (const { event } of agent.client(ExecutionService).execute({ contextId, code: '"alive"' })) {
      texts.push(event.case === 'result' ? event.value.text : JSON.stringify(event.value));
    }
  }
  expect(texts).toEqual(made.map(() => "'alive'"));
}, 300_000);

test('a terminal session: size, an editor in raw mode, Ctrl-C, exit', async () => {
  const { agent } = await open({ cpu_count: 1, memory_mb: 256, storage_gb: 1 });
  const terminal = new Terminal(agent.client(Process), ['bash', '--norc', '-i'], {
    size: { cols: 80, rows: 24 },
    envs: { PS1: 'ready> ' },
  });
  await terminal.shows(/ready> /);
  await terminal.type('tty; stty size\r');
  await terminal.shows(/\/dev\/pts\/\d+\r\n24 80\r\n/);
  await terminal.resize({ cols: 100, rows: 40 });
  await terminal.type('stty size\r');
  await terminal.shows(/\r40 100\r\n/);

  await terminal.type('nano note.txt\r');
  await terminal.shows(/\[\?1049h[\s\S]*GNU nano/);
  // The editor gets Ctrl-C as a key, not as a signal.
  await terminal.type('typed in an editor\x03');
  await terminal.shows(/col 19\/19/);
  await terminal.type('\x0f\r');
  await terminal.shows(/Wrote 1 line/);
  await terminal.type('\x18');
  await terminal.shows(/\[\?1049l[\s\S]*ready> /);
  expect((await agent.download('/root/note.txt')).toString()).toBe('typed in an editor\n');

  await terminal.type("sh -c 'echo slee''ping; exec sleep 600'\r");
  await terminal.shows(/\rsleeping\r\n/);
  await terminal.type('\x03');
  // Input before the prompt may be lost with the interrupted program.
  await terminal.shows(/\rsleeping\r\n\^C[\s\S]*ready> /);
  await terminal.type('echo "it ended with $?"\r');
  await terminal.shows(/\rit ended with 130\r\n/);
  await terminal.type('exit 7\r');
  await terminal.finished;
  expect(terminal.end).toMatchObject({ exitCode: 7, exited: true });
}, 180_000);
