import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { type Json, sandbox, TestAgent, token } from '../agent/support/agent.ts';
import { until } from '../support/until.ts';
import { isAlive } from './support/contexts.ts';
import { makingMs, realPython } from './support/real-kernels.ts';

/** E2B's code interpreter as its clients use it: the built agent with real kernels, over HTTP. */
let agent: TestAgent;
let bundle: string;

beforeAll(async () => {
  const python = await realPython();
  bundle = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-bundle-'));
  const out = path.join(bundle, 'agent');
  execFileSync(process.execPath, [path.resolve(import.meta.dirname, '../../agent/build.mjs'), '--out', out]);
  agent = await TestAgent.start({
    folder: out,
    boot: { platformToken: 'platform', init: sandbox({ env: { FROM_SANDBOX: 'yes' } }) },
    env: { PATH: `${python}:/usr/bin:/bin`, TMPDIR: bundle },
  });
}, makingMs);
afterAll(async () => {
  await agent?.stop();
  if (bundle) fs.rmSync(bundle, { recursive: true, force: true });
});

function send(
  target: string,
  options: { method?: string; body?: unknown; token?: string | null; signal?: AbortSignal },
) {
  const { method = 'POST', body, signal } = options;
  const given = options.token === undefined ? token : options.token;
  return fetch(`${agent.address}/interpreter${target}`, {
    method,
    headers: { 'content-type': 'application/json', ...(given !== null && { 'x-access-token': given }) },
    body: body === undefined ? null : typeof body === 'string' || body instanceof Buffer ? body : JSON.stringify(body),
    signal: signal ?? null,
  });
}

/** Runs code and returns the lines of the reply, without the counts. */
async function execute(body: object): Promise<Json[]> {
  const reply = await send('/execute', { body });
  const text = await reply.text();
  if (reply.status !== 200) throw new Error(`${reply.status} ${text}`);
  expect(text.endsWith('\n')).toBe(true);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

const ofType = (lines: Json[], type: string) => lines.filter((line) => line.type === type);
const printed = (lines: Json[]) =>
  ofType(lines, 'stdout')
    .map(({ text }) => text)
    .join('');

async function createContext(body: object = {}): Promise<Json> {
  const reply = await send('/contexts', { body });
  expect(reply.status).toBe(200);
  return reply.json();
}

async function listIds(): Promise<string[]> {
  const reply = await send('/contexts', { method: 'GET' });
  return ((await reply.json()) as { id: string }[]).map(({ id }) => id);
}

test('output, the value and the number of the execution are lines of JSON, and the end is the last', async () => {
  const lines = await execute({ code: 'import sys\nprint("out")\nprint("err", file=sys.stderr)\n"va" + "lue"' });
  expect(lines).toEqual([
    { type: 'stdout', text: 'out\n', timestamp: expect.stringMatching(/^\d{4}-.*Z$/) },
    { type: 'stderr', text: 'err\n', timestamp: expect.any(String) },
    { type: 'number_of_executions', execution_count: expect.any(Number) },
    { type: 'result', text: 'value', extra: {}, is_main_result: true },
    { type: 'end_of_execution' },
  ]);
});

test('each language runs by its names, and its default context keeps its state', async () => {
  for (const [language, set, get] of [
    ['python', 'n = 40 + 1', 'n + 1'],
    ['Python ', 'm = 1', 'n + m'],
    ['js', 'globalThis.n = 41; undefined', 'n + 1'],
    ['javascript', '0', 'n + 1'],
    ['ts', 'var n: number = 41', 'n + 1'],
  ] as const) {
    await execute({ code: set, language });
    expect(ofType(await execute({ code: get, language }), 'result')).toMatchObject([{ text: '42' }]);
  }
  await execute({ code: 'n=42', language: 'bash' });
  expect(printed(await execute({ code: 'echo $n $FROM_SANDBOX', language: 'bash', context_id: null }))).toBe(
    '42 yes\n',
  );
  expect(printed(await execute({ code: 'print(n)', language: null, env_vars: null }))).toBe('41\n');
});

test('code without a value has no result, and the count goes up with each execution', async () => {
  const { id } = await createContext({ language: 'python' });
  const count = { type: 'number_of_executions' };
  const end = { type: 'end_of_execution' };
  expect(await execute({ code: 'x = 1', context_id: id })).toEqual([{ ...count, execution_count: 1 }, end]);
  const failed = await execute({ code: 'raise KeyError("k")', context_id: id });
  expect(failed).toEqual([
    { ...count, execution_count: 2 },
    { type: 'error', name: 'KeyError', value: "'k'", traceback: expect.stringContaining('raise KeyError') },
    end,
  ]);
  expect(ofType(await execute({ code: 'x', context_id: id }), 'number_of_executions')[0].execution_count).toBe(3);
});

test("a shell's failed command is an error with its exit code", async () => {
  const lines = await execute({ code: 'echo before; false', language: 'bash' });
  expect(printed(lines)).toBe('before\n');
  expect(ofType(lines, 'error')).toEqual([{ type: 'error', name: '', value: '1', traceback: '' }]);
});

test('variables are those of one execution', async () => {
  const code = 'import os; print(os.environ.get("ONE"), os.environ["FROM_SANDBOX"])';
  expect(printed(await execute({ code, env_vars: { ONE: '1' } }))).toBe('1 yes\n');
  expect(printed(await execute({ code }))).toBe('None yes\n');
});

test('every format has its field, and others are extra', async () => {
  const bundle = {
    'text/plain': 't',
    'text/html': '<b>h</b>',
    'text/markdown': '*m*',
    'image/svg+xml': '<svg/>',
    'image/png': 'cG5n',
    'image/jpeg': 'anBn',
    'application/pdf': 'cGRm',
    'text/latex': '$l$',
    'application/json': { j: [1, 2.5, null] },
    'application/javascript': 'alert(1)',
    'application/vnd.plotly.v1+json': { data: [] },
    'text/x-other': 'o',
  };
  const code = `from IPython.display import display\ndisplay(${JSON.stringify(bundle).replace('null', 'None')}, raw=True)`;
  expect(ofType(await execute({ code }), 'result')).toEqual([
    {
      type: 'result',
      text: 't',
      html: '<b>h</b>',
      markdown: '*m*',
      svg: '<svg/>',
      png: 'cG5n',
      jpeg: 'anBn',
      pdf: 'cGRm',
      latex: '$l$',
      json: { j: [1, 2.5, null] },
      javascript: 'alert(1)',
      extra: { 'application/vnd.plotly.v1+json': { data: [] }, 'text/x-other': 'o' },
      is_main_result: false,
    },
  ]);
});

test('lists and dictionaries of Python have json, unless a value has no JSON', async () => {
  const json = async (code: string) => ofType(await execute({ code }), 'result')[0].json;
  expect(await json('[1, (2.5, None), {"a": float("nan"), 3: True}]')).toEqual([1, [2.5, null], { a: null, 3: true }]);
  expect(await json('import numpy, datetime\n{"n": numpy.arange(3), "d": datetime.date(2020, 1, 2)}')).toEqual({
    n: [0, 1, 2],
    d: '2020-01-02',
  });
  expect(await json('[object()]')).toBeUndefined();
  expect(await json('list(range(200000))')).toBeUndefined();
  expect(await json('"text"')).toBeUndefined();
  expect(await json('cycle = []\ncycle.append(cycle)\ncycle')).toBeUndefined();
});

test('a table has its columns as data, with every digit', async () => {
  const code =
    'import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.to_datetime(["2020-01-02"] * 2)})';
  const [table] = ofType(await execute({ code }), 'result');
  expect(table.data).toEqual({ a: [1, 2], b: ['x', null], c: ['2020-01-02T00:00:00', '2020-01-02T00:00:00'] });
  expect(table.html).toContain('<table');
  const reply = await send('/execute', { body: { code: 'pd.DataFrame({"n": [12345678901234567890]})' } });
  expect(await reply.text()).toContain('"data":{"n":[12345678901234567890]}');
});

describe('charts', () => {
  async function chartOf(code: string): Promise<Json> {
    const before = 'import matplotlib.pyplot as plt, datetime\nfig, ax = plt.subplots()\n';
    const [figure] = ofType(await execute({ code: `${before}${code}\nplt.show()` }), 'result');
    expect(Buffer.from(figure.png, 'base64').subarray(1, 4).toString()).toBe('PNG');
    expect(figure.is_main_result).toBe(false);
    return figure.chart;
  }
  const axes = { x_label: 'Time (s)', x_unit: 's', y_label: 'Height [m]', y_unit: 'm' };
  const label = 'ax.set_title("T"); ax.set_xlabel("Time (s)"); ax.set_ylabel("Height [m]")\n';

  test('lines have points, ticks and scales', async () => {
    const chart = await chartOf(`${label}ax.plot([1, 2], [10, 100], label="up"); ax.plot([1, 2], [1, float("nan")])
ax.set_yscale("log")`);
    expect(chart).toEqual({
      type: 'line',
      title: 'T',
      ...axes,
      x_ticks: expect.arrayContaining([1, 2]),
      x_tick_labels: expect.arrayContaining(['1.0', '2.0']),
      x_scale: 'linear',
      y_ticks: expect.any(Array),
      y_tick_labels: expect.any(Array),
      y_scale: 'log',
      elements: [
        {
          label: 'up',
          points: [
            [1, 10],
            [2, 100],
          ],
        },
        {
          label: 'Line 1',
          points: [
            [1, 1],
            [2, null],
          ],
        },
      ],
    });
  });

  test('points have categories and dates as text', async () => {
    const chart = await chartOf(
      'ax.scatter(["a", "b"], [datetime.date(2020, 1, 1), datetime.date(2020, 1, 3)], label="s")',
    );
    expect(chart).toMatchObject({ type: 'scatter', title: null, x_label: null, x_unit: null });
    expect(chart).toMatchObject({ x_scale: 'categorical', y_scale: 'datetime' });
    expect(chart.elements).toEqual([
      {
        label: 's',
        points: [
          ['a', '2020-01-01T00:00:00'],
          ['b', '2020-01-03T00:00:00'],
        ],
      },
    ]);
  });

  test('bars have a label, a group and a number', async () => {
    const chart = await chartOf(`${label}ax.bar(["a", "b"], [1, 2.5]); ax.bar(["a", "b"], [3, 4], bottom=[1, 2.5])`);
    expect(chart).toEqual({
      type: 'bar',
      title: 'T',
      ...axes,
      elements: [
        { label: 'a', group: 'Group 0', value: 1 },
        { label: 'b', group: 'Group 0', value: 2.5 },
        { label: 'a', group: 'Group 1', value: 3 },
        { label: 'b', group: 'Group 1', value: 4 },
      ],
    });
  });

  test('slices have an angle and a radius', async () => {
    const chart = await chartOf('ax.pie([35, 65], labels=["a", "b"])');
    expect(chart).toEqual({
      type: 'pie',
      title: null,
      elements: [
        { label: 'a', angle: 126, radius: 1 },
        { label: 'b', angle: 234, radius: 1 },
      ],
    });
  });

  test('boxes have their quartiles', async () => {
    const chart = await chartOf(`${label}ax.boxplot([[1, 2, 3, 4, 100]], tick_labels=["b"])`);
    expect(chart).toEqual({
      type: 'box_and_whisker',
      title: 'T',
      ...axes,
      elements: [{ label: 'b', min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 4, outliers: [100] }],
    });
  });

  test('several plots are a superchart', async () => {
    const chart = await chartOf(
      'plt.close(fig)\nfig, (one, two) = plt.subplots(1, 2); one.plot([1, 2]); two.bar(["a"], [1]); fig.suptitle("All")',
    );
    expect(chart).toMatchObject({
      type: 'superchart',
      title: 'All',
      elements: [
        {
          type: 'line',
          elements: [
            {
              label: 'Line 0',
              points: [
                [0, 1],
                [1, 2],
              ],
            },
          ],
        },
        { type: 'bar', elements: [{ label: 'a', group: 'Group 0', value: 1 }] },
      ],
    });
  });

  test('a chart that code displays has every field, whatever it says', async () => {
    const shown = {
      type: 'line',
      elements: [{ label: 'l', points: [[1, 2]] }],
      extra: { x_ticks: 'no', y_ticks: '{}' },
    };
    const javascript = await execute({ code: `display(${JSON.stringify(shown)})`, language: 'js' });
    expect(ofType(javascript, 'result')[0].chart).toMatchObject({ x_ticks: [], y_ticks: [], x_label: null });
    const odd = await execute({ code: `display(${JSON.stringify({ ...shown, type: 'sankey' })})`, language: 'js' });
    expect(ofType(odd, 'result')[0].chart).toEqual({
      type: 'unknown',
      title: null,
      elements: [{ label: 'l', points: [[1, 2]] }],
    });
  });
});

test('contexts are created, listed, used and removed', async () => {
  const plain = await createContext();
  const cwd = fs.existsSync('/home/user') ? '/home/user' : os.homedir();
  expect(plain).toEqual({ id: expect.any(String), language: 'python', cwd });
  const bash = await createContext({ language: 'bash', cwd: '/usr' });
  expect(bash).toEqual({ id: expect.any(String), language: 'bash', cwd: '/usr' });
  expect((await listIds()).slice(-2)).toEqual([plain.id, bash.id]);
  expect(printed(await execute({ code: 'pwd', context_id: bash.id }))).toBe('/usr\n');
  const removed = await send(`/contexts/${bash.id}`, { method: 'DELETE' });
  expect([removed.status, await removed.json()]).toEqual([200, null]);
  expect(await listIds()).not.toContain(bash.id);
  const gone = await send('/execute', { body: { code: 'pwd', context_id: bash.id } });
  expect([gone.status, await gone.text()]).toEqual([404, `context ${bash.id} not found`]);
});

test('the default context of each language is in the list, and a removed one is replaced', async () => {
  await execute({ code: 'kept = 1' });
  const reply = await send('/contexts', { method: 'GET' });
  const [oldest] = (await reply.json()) as Json[];
  expect(oldest).toMatchObject({ language: 'python' });
  await send(`/contexts/${oldest.id}`, { method: 'DELETE' });
  expect(ofType(await execute({ code: 'kept' }), 'error')[0].name).toBe('NameError');
});

test('a restart ends the code in progress, drops the state and keeps the id', async () => {
  const { id } = await createContext();
  await execute({ code: 'x = 1', context_id: id });
  const running = await send('/execute', {
    body: { code: 'print("on", flush=True); import time; time.sleep(1000)', context_id: id },
  });
  const reader = running.body!.getReader();
  await reader.read();
  const waiting = execute({ code: '1 + 1', context_id: id });
  const restarts = await Promise.all([1, 2].map(() => send(`/contexts/${id}/restart`, {})));
  expect(restarts.map(({ status }) => status)).toEqual([200, 200]);
  let rest = '';
  for (let next = await reader.read(); !next.done; next = await reader.read())
    rest += new TextDecoder().decode(next.value);
  expect(rest).toContain('"name":"ContextRestarted"');
  expect(ofType(await waiting, 'result')).toMatchObject([{ text: '2' }]);
  expect(ofType(await execute({ code: 'x', context_id: id }), 'error')).toMatchObject([{ name: 'NameError' }]);
  expect((await listIds()).filter((each) => each === id)).toEqual([id]);
});

test('a context whose kernel has died works again after a restart', async () => {
  const { id } = await createContext();
  const died = await execute({ code: 'import os; os.kill(os.getpid(), 9)', context_id: id });
  expect(ofType(died, 'error')[0].name).toBe('KernelDied');
  expect((await send(`/contexts/${id}/restart`, {})).status).toBe(200);
  expect(ofType(await execute({ code: '1 + 1', context_id: id }), 'result')).toMatchObject([{ text: '2' }]);
});

test('a context that is removed during its restart leaves no kernel', async () => {
  const { id } = await createContext();
  const pid = Number(printed(await execute({ code: 'import os; print(os.getpid())', context_id: id })));
  const kernels = () => fs.readdirSync(bundle).filter((name) => name.startsWith('context-')).length;
  const before = kernels();
  const [restarted, removed] = await Promise.all([
    send(`/contexts/${id}/restart`, {}),
    send(`/contexts/${id}`, { method: 'DELETE' }),
  ]);
  expect([200, 404]).toContain(restarted.status);
  expect(removed.status).toBe(200);
  expect(isAlive(pid)).toBe(false);
  expect(kernels()).toBe(before - 1);
});

test('output arrives while the code runs', async () => {
  const go = path.join(bundle, 'go');
  const code = `import os, time\nprint("first", flush=True)\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)\nprint("second")`;
  const reply = await send('/execute', { body: { code } });
  const reader = reply.body!.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toContain('first');
  fs.writeFileSync(go, '');
  let rest = '';
  for (let next = await reader.read(); !next.done; next = await reader.read())
    rest += new TextDecoder().decode(next.value);
  expect(rest).toContain('second');
});

test('the head comes before the first output, so that a limit for it is no limit for the code', async () => {
  const go = path.join(bundle, 'go-head');
  const code = `import os, time\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)`;
  const reply = await send('/execute', { body: { code } });
  expect(reply.status).toBe(200);
  fs.writeFileSync(go, '');
  expect(await reply.text()).toContain('end_of_execution');
});

test('silent code is answered with lines that clients ignore', async () => {
  const go = path.join(bundle, 'go-silent');
  const code = `import os, time\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)`;
  const reply = await send('/execute', { body: { code } });
  const first = await reply.body!.getReader().read();
  expect(new TextDecoder().decode(first.value)).toBe('{"type":"keepalive"}\n');
  fs.writeFileSync(go, '');
});

test('code whose client leaves is interrupted, and its context goes on', async () => {
  const leave = new AbortController();
  const mark = path.join(bundle, 'interrupted');
  const code = `kept = 7\nimport time\ntry:\n  print("on", flush=True)\n  time.sleep(1000)\nexcept KeyboardInterrupt:\n  open(${JSON.stringify(mark)}, "w").close()\n  raise`;
  const reply = await send('/execute', { body: { code }, signal: leave.signal });
  await reply.body!.getReader().read();
  leave.abort();
  await until(() => fs.existsSync(mark));
  expect(ofType(await execute({ code: 'kept' }), 'result')).toMatchObject([{ text: '7' }]);
});

test('clients that leave at any time leave no error behind', async () => {
  const logged = agent.log;
  const { id } = await createContext();
  const calls = [
    ['/execute', { code: 'for n in range(100000): print(n)', context_id: id }],
    ['/execute', { code: '1' }],
    ['/contexts', {}],
    ['/contexts', { language: 'bash' }],
    [`/contexts/${id}/restart`, undefined],
  ] as const;
  for (let round = 0; round < 4; round++) {
    await Promise.all(
      calls.map(async ([target, body], at) => {
        const leave = new AbortController();
        const sent = send(target, { ...(body && { body }), signal: leave.signal }).then((reply) => reply.text());
        setTimeout(() => leave.abort(), round * 30 + at * 7);
        await sent.catch((error) => expect(error.name).toBe('AbortError'));
      }),
    );
  }
  await until(async () => printed(await execute({ code: 'print("well")', context_id: id })) === 'well\n');
  expect(agent.log.slice(logged.length)).toBe('');
});

test('a client that does not read stops the code that writes', async () => {
  const socket = net.connect(Number(new URL(agent.address).port), '127.0.0.1');
  await once(socket, 'connect');
  socket.pause();
  const count = path.join(bundle, 'written');
  const code = `import itertools, os\nfor n in itertools.count():\n  print("x" * 10000)\n  fd = os.open(${JSON.stringify(count)}, os.O_CREAT | os.O_WRONLY)\n  os.pwrite(fd, str(n).encode(), 0)\n  os.close(fd)`;
  const body = JSON.stringify({ code });
  socket.write(
    `POST /interpreter/execute HTTP/1.1\r\nHost: a\r\nX-Access-Token: ${token}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const written = () => (fs.existsSync(count) ? fs.readFileSync(count, 'utf8') : '');
  let last = '';
  // It has stopped when the count is the same several times.
  let same = 0;
  await until(() => {
    same = written() !== '' && written() === last ? same + 1 : 0;
    last = written();
    return same > 100;
  }, 60_000);
  expect(Number(last)).toBeLessThan(20_000);
  expect(agent.privateMib()).toBeLessThan(200);
  socket.destroy();
  expect(ofType(await execute({ code: '1' }), 'result')).toMatchObject([{ text: '1' }]);
});

describe('refusals', () => {
  test.each([
    ['no token', null],
    ['a wrong token', 'wrong'],
  ])('%s is 401', async (_name, given) => {
    for (const [target, method] of [
      ['/execute', 'POST'],
      ['/contexts', 'GET'],
      ['/health', 'GET'],
    ] as const) {
      const reply = await send(target, { method, token: given });
      expect([reply.status, await reply.text()]).toEqual([401, 'access token missing or wrong']);
    }
  });

  test.each([
    ['no JSON', '{', 'the body is not JSON'],
    ['bytes that are not UTF-8', Buffer.from('{"code":"\xff"}', 'latin1'), 'the body is not JSON'],
    ['a list', '[]', 'the body must be an object'],
    ['no code', '{}', 'code must be a text'],
    ['a number as code', '{"code":1}', 'code must be a text'],
    ['a number as context', '{"code":"1","context_id":1}', 'context_id must be a text'],
    ['context and language', '{"code":"1","context_id":"c","language":"python"}', 'give either context_id or language'],
    ['variables as list', '{"code":"1","env_vars":[]}', 'env_vars must be an object'],
    ['a number as variable', '{"code":"1","env_vars":{"A":1}}', 'env_vars must hold texts'],
    [
      'a name that no variable has',
      '{"code":"1","env_vars":{"A=":""}}',
      "env_vars: 'A=' cannot be an environment variable",
    ],
    ['an unknown language', '{"code":"1","language":"cobol"}', /^unknown language 'cobol'/],
    ['a language of objects', '{"code":"1","language":"constructor"}', /^unknown language 'constructor'/],
  ])('%s is 400 with the reason, which is also in the status line', async (_name, body, reason) => {
    const reply = await send('/execute', { body });
    expect(reply.status).toBe(400);
    const text = await reply.text();
    expect(text).toMatch(reason);
    expect(reply.statusText).toBe(text.slice(0, 200));
  });

  test('unknown paths, contexts and methods are refused', async () => {
    const status = async (target: string, method: string) => (await send(target, { method })).status;
    expect(await status('/nothing', 'GET')).toBe(404);
    expect(await status('/contexts/', 'DELETE')).toBe(404);
    expect(await status('/contexts/ctx-1', 'DELETE')).toBe(404);
    expect(await status('/contexts/ctx-1/restart', 'POST')).toBe(404);
    expect(await status('/contexts/__proto__', 'DELETE')).toBe(404);
    expect(await status('/contexts/ctx-1/restart/more', 'POST')).toBe(404);
    expect(await status('/execute', 'GET')).toBe(405);
    expect(await status('/contexts', 'DELETE')).toBe(405);
    expect(await status('/contexts/ctx-1', 'POST')).toBe(405);
  });

  test('a body over the limit is refused before it is read', async () => {
    const reply = await send('/execute', { body: { code: `"${'x'.repeat(33 * 1024 * 1024)}"` } });
    expect(reply.status).toBe(429);
    expect(await reply.text()).toContain('over the limit');
  });

  test('a folder that cannot be one, and a language that the sandbox lacks, are 400', async () => {
    const file = path.join(bundle, 'file');
    fs.writeFileSync(file, '');
    const folder = await send('/contexts', { body: { cwd: file } });
    expect([folder.status, await folder.text()]).toEqual([400, `cwd ${file}: not a directory`]);
    const missing = await send('/contexts', { body: { language: 'r' } });
    expect(missing.status).toBe(400);
  });
});

test('it is healthy', async () => {
  const reply = await send('/health', { method: 'GET' });
  expect([reply.status, await reply.json()]).toEqual([200, 'OK']);
});
