import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import * as nodePty from '@lydell/node-pty';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { namesOf } from './methods-table.ts';
import { npmPackages, packageFile } from './published-packages.ts';
import { settingsFor } from './run-program.ts';

/** E2B's command line against a running platform, on one machine without TLS. */
let platform: RunningPlatform;
const home = fs.mkdtempSync(path.join(os.tmpdir(), 'e2b-home-'));
beforeAll(async () => {
  platform = await RunningPlatform.shared();
}, 300_000);
afterAll(() => platform.leave());
afterAll(() => fs.rmSync(home, { recursive: true, force: true }));

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** The program looks for a newer version only if npm has started it. */
const environment = () => {
  const own = Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_'));
  const settings = settingsFor(platform.env);
  // Version 2.10 wants this variable for its commands of templates.
  return {
    ...Object.fromEntries(own),
    NODE_OPTIONS: '',
    HOME: home,
    ...settings,
    E2B_ACCESS_TOKEN: settings.E2B_API_KEY,
  };
};

class CommandLine {
  readonly called = new Set<string>();
  readonly #program: string;

  constructor(packageName: string) {
    this.#program = packageFile(packageName, 'dist/index.js');
  }

  /** Notes the words that docs/e2b.md has of a command. */
  #note(words: string[]): void {
    this.called.add(['e2b', ...words.slice(0, words[1] === 'snapshot' ? 3 : 2)].join(' '));
  }

  async run(words: string[], input = ''): Promise<Ended> {
    this.#note(words);
    const child = spawn(process.execPath, [this.#program, ...words], { env: environment(), cwd: home });
    child.stdin.end(input);
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    return { code, stdout, stderr };
  }

  /** Types lines into the terminal that the command opens, each when the text before it is shown. */
  async inTerminal(words: string[], lines: [after: string, typed: string][]): Promise<string> {
    this.#note(words);
    const options = { env: environment(), cwd: home, cols: 90, rows: 30, name: 'xterm-256color' };
    const terminal = nodePty.spawn(process.execPath, [this.#program, ...words], options);
    let shown = '';
    let ended = false;
    terminal.onData((data) => {
      shown += data;
    });
    terminal.onExit(() => {
      ended = true;
    });
    try {
      for (const [after, typed] of lines) {
        await until(() => shown.includes(after), 30_000).catch(() => {
          throw new Error(`The terminal does not show ${after}:\n${shown}`);
        });
        terminal.write(`${typed}\r`);
      }
      await until(() => ended, 30_000).catch(() => {
        throw new Error(`The command does not end:\n${shown}`);
      });
      return shown;
    } finally {
      if (!ended) terminal.kill('SIGKILL');
    }
  }
}

/** @returns the id of a new template of the account */
async function newTemplate(): Promise<string> {
  const api = platform.client();
  const { data } = (await api.request<{ templates: { template_id: string }[] }>('GET', '/v1/templates?name=base')).body;
  const wanted = { name: `tried-${randomUUID().slice(0, 8)}`, base_template_id: data.templates[0]!.template_id };
  return (await api.request<{ template_id: string }>('POST', '/v1/templates', wanted)).body.data.template_id;
}

test('every version of the command line does here what the page says', async () => {
  await Promise.all(Object.entries(npmPackages.cli).map(([version, name]) => tryVersion(version, name)));
}, 170_000);

async function tryVersion(version: string, packageName: string): Promise<void> {
  const e2b = new CommandLine(packageName);
  const created = await e2b.run(['sandbox', 'create', '--detach', 'base']);
  expect(created).toMatchObject({ code: 0, stderr: '' });
  const id = /sbx-[\w-]+/.exec(created.stdout)![0];

  const [listed, info, templates] = await Promise.all([
    e2b.run(['sandbox', 'list', '--format', 'json']),
    e2b.run(['sandbox', 'info', id, '--format', 'json']),
    e2b.run(['template', 'list', '--format', 'json']),
  ]);
  expect(JSON.parse(listed.stdout)).toContainEqual(expect.objectContaining({ sandboxId: id, state: 'running' }));
  expect(JSON.parse(info.stdout)).toMatchObject({ sandboxId: id, state: 'running', metadata: {} });
  const names = (JSON.parse(templates.stdout) as { aliases: string[] }[]).flatMap(({ aliases }) => aliases);
  expect(names).toEqual(expect.arrayContaining(['base', 'code-interpreter-v1']));

  const [piped, failed, asRoot] = await Promise.all([
    e2b.run(['sandbox', 'exec', id, 'cat; echo err >&2'], 'piped words'),
    e2b.run(['sandbox', 'exec', id, 'exit 7']),
    e2b.run([
      ...['sandbox', 'exec', '--user', 'root', '--cwd', '/tmp', '--env', 'COLOR=blue', id],
      'whoami; pwd; echo $COLOR',
    ]),
  ]);
  expect(piped).toEqual({ code: 0, stdout: 'piped words', stderr: 'err\n' });
  expect(failed.code).toBe(7);
  expect(asRoot).toEqual({ code: 0, stdout: 'root\n/tmp\nblue\n', stderr: '' });

  const shown = await e2b.inTerminal(
    ['sandbox', 'connect', id],
    [
      ['$ ', 'echo "<$(whoami)>" "<$(stty size)>"'],
      ['<user> <30 90>', 'exit'],
    ],
  );
  expect(shown).toContain(`Closing terminal connection to sandbox`);

  const [metrics, logs] = await Promise.all([
    e2b.run(['sandbox', 'metrics', id, '--format', 'json']),
    e2b.run(['sandbox', 'logs', id, '--format', 'json']),
  ]);
  expect(metrics).toMatchObject({ code: 0, stderr: '' });
  expect(logs).toMatchObject({ code: 0, stderr: '' });
  expect(logs.stdout).toMatch(/sandbox\.(created|started|running)/);

  expect(await e2b.run(['sandbox', 'pause', id])).toMatchObject({ code: 0 });
  const paused = await e2b.run(['sandbox', 'list', '--state', 'paused', '--format', 'json']);
  expect(JSON.parse(paused.stdout)).toContainEqual(expect.objectContaining({ sandboxId: id, state: 'paused' }));
  expect(await e2b.run(['sandbox', 'resume', id])).toMatchObject({ code: 0 });
  const background = await e2b.run(['sandbox', 'exec', '--background', id, 'sleep 1000']);
  expect(background).toMatchObject({ code: 0, stderr: expect.stringMatching(/^\d+\n$/) });
  expect((await e2b.run(['sandbox', 'kill', id])).stdout).toContain('has been killed');
  expect((await e2b.run(['sandbox', 'kill', id])).stderr).toContain("wasn't found");

  const template = await newTemplate();
  const deleted = await e2b.run(['template', 'delete', '--yes', template]);
  expect([deleted.code, deleted.stderr]).toEqual([0, '']);
  const after = await platform.client().request('GET', `/v1/templates/${template}`);
  expect(after.status).toBe(404);

  await refusals(e2b, version);
}

const unknown = 'sbx-00000000-0000-4000-8000-000000000000';

/** What cannot be done ends with a message of the platform and another exit code than 0. */
async function refusals(e2b: CommandLine, version: string): Promise<void> {
  const project = path.join(home, version);
  fs.mkdirSync(project, { recursive: true });
  fs.writeFileSync(path.join(project, 'e2b.Dockerfile'), 'FROM debian:12\nRUN true\n');
  const refused = [
    ['template', 'create', 'mine', '--path', project],
    ['template', 'publish', '--yes', 'base'],
    ['template', 'unpublish', '--yes', 'base'],
  ];
  if (version === '2.19.0') {
    refused.push(['sandbox', 'snapshot', 'create', unknown], ['sandbox', 'snapshot', 'list']);
    // There are no snapshots.
    expect((await e2b.run(['sandbox', 'snapshot', 'delete', 'mine'])).stderr).toContain("wasn't found");
  }
  const results = await Promise.all(refused.map((words) => e2b.run(words)));
  for (const [index, { code, stdout, stderr }] of results.entries()) {
    const words = refused[index]!.join(' ');
    expect([words, code, `${stdout}${stderr}`]).toEqual([words, 1, expect.stringMatching(/not supported|\/v1\//)]);
  }
  const expected = namesOf('commands', 'yes', 'refused').filter((name) => !notCalled(name, version));
  expect(expected.filter((name) => !e2b.called.has(name))).toEqual([]);
}

/** A sign-in opens a browser; older versions have no snapshots. */
const notCalled = (name: string, version: string) =>
  name.startsWith('e2b auth') || (name.startsWith('e2b sandbox snapshot') && version !== '2.19.0');
