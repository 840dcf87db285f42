import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { PythonWithClient } from '../clients/installed-python.ts';
import { ProjectWithClient } from '../clients/packed-client.ts';
import { pythonPackages, pythonWith } from '../e2b/published-packages.ts';
import { settingsFor } from '../e2b/run-program.ts';
import { runOperator } from '../support/operator.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { S3Server } from '../support/s3-server.ts';
import { type CodeBlock, documentationPages, expectOutput, outputPattern, readCodeBlocks } from './code-blocks.ts';
import { fieldsThatAreNotThere } from './json-blocks.ts';
import { linesOfPicture, type PrintedLine, terminalPicture } from './terminal-picture.ts';

/**
 * Every code block in README.md, docs/ and clients/ runs against one platform, in the order of its page. Blocks of `sh`
 * share a shell. A block of `output` is the output of the previous block. CONTRIBUTING.md describes how to write them.
 */
const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');

/** Blocks with `<!-- not run: reason -->`, by page and first line. */
const notRun = [
  'CONTRIBUTING.md: npm start                                  # the platform on this machine',
  'README.md: npm start        # installs what is missing, then runs the whole platform on this machine',
  'clients/README.md: UPDATE_CLIENT_TYPES=1 npm test -- test/clients/generated-types.test.ts',
  'clients/README.md: npm install $PLATFORM_URL/clients/sandbox-platform-client.tgz',
  'clients/mcp/README.md: PLATFORM_URL=http://127.0.0.1:7080 ~/sandbox-mcp/node_modules/.bin/sandbox-platform-mcp --http --port 7090',
  'clients/mcp/README.md: npm install --prefix ~/sandbox-mcp $PLATFORM_URL/clients/sandbox-platform-mcp.tgz',
  'clients/python/README.md: pip install $PLATFORM_URL/clients/sandbox_platform_client-0.1.0-py3-none-any.whl',
  'clients/typescript/README.md: npm install $PLATFORM_URL/clients/sandbox-platform-client.tgz',
  'docs/billing.md: npm run admin -- refund-charge --charge pi_… --amount 5.00 --description "An hour without service"',
  'docs/e2b.md: export E2B_DOMAIN=sandboxes.example.com E2B_API_KEY=e2b_73706b5f…',
  'docs/guides/agent-runs-code.md: (cd clients/integrations/ai-sdk && npm install --no-save $PLATFORM_URL/clients/sandbox-platform-client.tgz && npm run build && npm pack)',
  "docs/guides/agent-runs-code.md: import { stepCountIs, ToolLoopAgent } from 'ai';",
  "docs/guides/from-daytona.md: import { Daytona } from '@daytonaio/sdk';",
  'docs/guides/three-machines.md: docker compose --env-file /etc/sandbox-platform/servers.env --file docker-compose.yml --file /etc/sandbox-platform/servers.yml \\',
  'docs/install.md: sha256sum --check --ignore-missing SHA256SUMS',
  'docs/install.md: tar -xzf sandbox-platform-0.1.0-linux-x64.tar.gz -C /opt',
  'docs/install.md: tar -xzf sandbox-platform-0.2.0-linux-x64.tar.gz -C /opt',
  'docs/integrations.md: from agents import RunConfig, Runner',
  'docs/integrations.md: from deepagents import create_deep_agent',
  'docs/integrations.md: harbor run --path sum --agent oracle --env sandbox_platform_harbor:PlatformEnvironment',
  "docs/integrations.md: import { compute } from 'computesdk';",
  "docs/integrations.md: import { stepCountIs, ToolLoopAgent } from 'ai';",
  'docs/kubernetes.md: PLATFORM_REGISTRY=registry.example.com npm run admin -- push-template-image --template base',
  'docs/kubernetes.md: apiVersion: scheduling.k8s.io/v1',
  'docs/kubernetes.md: image: { repository: registry.example.com/sandbox-platform, tag: "0.1.0" }',
  'docs/kubernetes.md: kubectl create secret generic platform --from-file=PLATFORM_SECRET_KEY --from-file=DATABASE_URL',
  'docs/kubernetes.md: kubectl drain NODE --ignore-daemonsets --delete-emptydir-data --force   # --force: pods of sandboxes have no controller',
  'docs/kubernetes.md: kubectl exec deployment/platform-api -- node ops/operator/admin.ts create-api-key',
  'docs/kubernetes.md: kubectl taint nodes NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute',
  'docs/kubernetes.md: sandboxes:',
  'docs/operations.md: npm run admin -- backup --to /backups/monday',
  'docs/operations.md: prometheus --config.file ops/monitoring/prometheus.yml',
  'docs/production.md: docker compose exec api node ops/operator/admin.ts create-api-key',
  'docs/production.md: npm run admin -- list-worker-versions',
  'docs/production.md: npm run admin -- release-pinned-workflows --build 0.1.0-52d1e8f0ab47',
  'docs/production.md: scrape_configs:',
  'docs/quick-start.md: mkdir ../my-agent && cd ../my-agent && npm init --yes',
  'docs/quick-start.md: python3 -m venv venv',
  'docs/service.md: cd / && /opt/sandbox-platform/current/node_modules/node/bin/node /opt/sandbox-platform/current/ops/service/main.ts uninstall',
  'docs/service.md: journalctl -u sandbox-platform --follow                 # all logs; -p warning: only warnings and errors',
  'docs/service.md: node_modules/node/bin/node ops/service/main.ts install',
  'docs/service.md: node_modules/node/bin/node ops/service/main.ts install migrate api gateway worker    # on the first machine',
  'docs/service.md: node_modules/node/bin/node ops/service/main.ts upgrade                               # in the folder of the new release',
  'docs/templates.md: ask() { curl -sS -H "X-API-Key: $PLATFORM_API_KEY" -H \'Content-Type: application/json\' "$@"; }',
];

/** Pages whose programs other tests run. */
const runElsewhere: Record<string, string> = {
  'clients/typescript/README.md': 'test/clients/typescript-client.test.ts',
  'clients/python/README.md': 'test/clients/python-client.test.ts',
  'docs/guides/three-machines.md': 'test/docs/three-machines.test.ts',
};

const pages = documentationPages();
const blocks = pages.flatMap(readCodeBlocks);
const runnable = blocks.filter(({ notRun, page }) => notRun === null && !(page in runElsewhere));

const platform = new RunningPlatform();
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'documentation-'));
let project: ProjectWithClient;
let python: PythonWithClient;
let e2bPython: string;
let s3: S3Server;
let programFiles: Map<CodeBlock, string>;
let environment: Record<string, string>;
// biome-ignore lint/suspicious/noExplicitAny: any JSON
let document: any;

beforeAll(async () => {
  [project, python, e2bPython, s3] = await Promise.all([
    ProjectWithClient.make(),
    PythonWithClient.make(),
    pythonWith(pythonPackages.e2b['2.63.0']!),
    S3Server.start('data'),
    platform.start(),
  ]);
  fs.symlinkSync(platform.dataDir, path.join(folder, '.data'));
  fs.symlinkSync(path.join(root, 'ops'), path.join(folder, 'ops'));
  for (const library of ['standardwebhooks', 'e2b', '@e2b']) {
    fs.symlinkSync(path.join(root, 'node_modules', library), path.join(project.dir, 'node_modules', library));
  }
  const programs = runnable.filter(({ language }) => language === 'ts');
  const files = await project.check(programs.map(({ source }) => source));
  programFiles = new Map(programs.map((block, index) => [block, files[index]!]));
  document = await (await fetch(`${platform.env.PLATFORM_URL}/openapi.json`)).json();
  environment = await idsOfExamples();
}, 300_000);

afterAll(async () => {
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
  project?.remove();
  python?.remove();
  await s3?.stop();
  fs.rmSync(folder, { recursive: true });
}, 180_000);

interface User {
  account_id: string;
  user_id: string;
}

/**
 * The values of the pages' variables: a running sandbox with its domain, token, owner and host, a deleted user, and an
 * S3 server.
 */
async function idsOfExamples(): Promise<Record<string, string>> {
  const { PLATFORM_URL, PLATFORM_API_KEY } = platform.env;
  const client = platform.client();
  const wanted = { name: 'documentation', timeout: 3600 };
  const requestId = { 'X-Request-Id': '5f0c8a4e-0d5a-4f0e-9c33-6a5d1b7e2f90' };
  const created = await client.request<SandboxView>('POST', '/v1/sandboxes', wanted, requestId);
  expect(created).toMatchObject({ status: 201 });
  const { data: sandbox } = created.body;
  const { data: user } = (await client.request<User>('GET', '/v1/users/me')).body;
  const hosts = JSON.parse((await runOperator('admin', platform.dataDir, ['list-hosts'])).stdout);
  return {
    ...{ PLATFORM_URL, PLATFORM_API_KEY: PLATFORM_API_KEY!, PLATFORM_DATA_DIR: platform.dataDir, REPOSITORY: root },
    ...settingsFor(platform.env),
    ...{ SANDBOX_ID: sandbox.sandbox_id, DOMAIN: sandbox.sandbox_domain, TOKEN: sandbox.envd_access_token! },
    ...{ ACCOUNT_ID: user.account_id, USER_ID: user.user_id, DELETED_USER_ID: await deletedUser(client) },
    ...{ S3_ENDPOINT: s3.endpoint, S3_ACCESS_KEY: s3.accessKey, S3_SECRET_KEY: s3.secretKey },
    ...{ HOST_ID: hosts[0].hostId, REQUEST_ID: requestId['X-Request-Id'] },
  };
}

async function deletedUser(client: PlatformClient): Promise<string> {
  const user = { email: 'gone@example.com', username: 'gone', role: 'user' };
  const { data } = (await client.request<{ user: User }>('POST', '/v1/user-management/users', user)).body;
  const deleted = await client.request('DELETE', `/v1/user-management/users/${data.user.user_id}`);
  expect(deleted.status).toBeLessThan(300);
  return data.user.user_id;
}

/** `npm run` uses the repository, regardless of the shell's folder. */
const beforeBlocks = `set -euo pipefail\nnpm() { command npm --silent --prefix "$REPOSITORY" "$@"; }\n`;
const separator = '\u001e';

/** @returns the output of each block */
async function runShell(all: CodeBlock[]): Promise<string[]> {
  const script = beforeBlocks + all.map(({ source }) => `${source}\nprintf '${separator}'\n`).join('');
  const env = { ...process.env, NODE_OPTIONS: '', ...environment };
  const { stdout } = await run('bash', ['-c', script], {
    cwd: folder,
    env,
    timeout: 230_000,
    maxBuffer: 64 * 1024 ** 2,
  }).catch((error) => {
    const block = all[error.stdout.split(separator).length - 1];
    throw new Error(`${block?.page}:${block?.line}: ${error.message}\n${error.stdout.split(separator).at(-1)}`);
  });
  return stdout.split(separator);
}

async function runE2bPython({ source }: CodeBlock): Promise<string> {
  return (await run(e2bPython, ['-c', source], { env: { ...process.env, ...environment }, timeout: 100_000 })).stdout;
}

describe('the blocks of', () => {
  const pagesThatRun = [...new Set(runnable.map(({ page }) => page))];
  test.each(pagesThatRun)(
    '%s',
    async (page) => {
      const own = runnable.filter((block) => block.page === page);
      const shell = own.filter(({ language }) => language === 'sh');
      const printed = shell.length === 0 ? [] : await runShell(shell);
      for (const [index, block] of shell.entries()) expectOutput(block, printed[index]!);
      for (const block of own) {
        if (block.language === 'ts') {
          expectOutput(block, await project.runFile(programFiles.get(block)!, environment));
        } else if (block.language === 'python') {
          const isOfE2b = /^from e2b/m.test(block.source);
          const printed = isOfE2b ? await runE2bPython(block) : await python.run(['-c', block.source], environment);
          expectOutput(block, printed);
        } else if (block.language === 'json') {
          expect([block.line, fieldsThatAreNotThere(block, document)]).toEqual([block.line, []]);
        }
      }
      expect(own.length).toBeGreaterThan(0);
    },
    240_000,
  );
});

test('the languages of blocks are known, and blocks that are not run are listed here', () => {
  const languages = new Set(runnable.map(({ language }) => language));
  expect([...languages].sort()).toEqual(['json', 'python', 'sh', 'text', 'ts']);
  const commands = runnable.filter(
    ({ language, source }) => language === 'text' && /^\$? ?(npm|npx|curl|docker|pip|export|git) /m.test(source),
  );
  expect(commands.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
  const left = blocks.filter((block) => block.notRun !== null);
  expect(left.map(({ page, source }) => `${page}: ${source.split('\n')[0]}`).sort()).toEqual(notRun);
  for (const [page, file] of Object.entries(runElsewhere)) {
    expect(fs.readFileSync(path.join(root, file), 'utf8')).toContain(`'${page}'`);
  }
});

test('links between pages lead to existing pages and headings', () => {
  const broken = pages.flatMap((page) => {
    const text = fs.readFileSync(path.join(root, page), 'utf8').replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '');
    const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)/g)];
    return links.flatMap(([link, target, anchor]) => {
      const file = target === '' ? path.join(root, page) : path.resolve(root, path.dirname(page), target!);
      if (!fs.existsSync(file)) return [`${page}: ${link}`];
      if (!anchor) return [];
      const headings = [...fs.readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading]) => slug(heading!));
      return headings.includes(anchor.slice(1)) ? [] : [`${page}: ${link}`];
    });
  });
  expect(broken).toEqual([]);
});

/** The anchor of a heading as GitHub makes it. */
const slug = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');

test('the picture of the README shows its program', async () => {
  const file = path.join(root, 'docs/images/first-sandbox.svg');
  const block = runnable.find(({ page, language }) => page === 'README.md' && language === 'ts')!;
  if (process.env.UPDATE_PICTURE) {
    fs.writeFileSync(file, terminalPicture(block.source, 'node hello.ts', await linesAsTheyCome(block)));
  }
  const shown = linesOfPicture(fs.readFileSync(file, 'utf8'));
  const source = block.source.trimEnd().split('\n');
  expect(shown.slice(0, source.length + 2)).toEqual([...source, '', '$ node hello.ts']);
  expect(shown.slice(source.length + 2).join('\n')).toMatch(outputPattern(block.output!));
});

async function linesAsTheyCome(block: CodeBlock): Promise<PrintedLine[]> {
  const options = { cwd: project.dir, env: { ...process.env, NODE_OPTIONS: '', ...environment } };
  const child = spawn(process.execPath, [programFiles.get(block)!], options);
  const startedMs = Date.now();
  const lines: PrintedLine[] = [];
  for await (const piece of child.stdout.setEncoding('utf8')) {
    for (const text of piece.trimEnd().split('\n')) lines.push({ text, afterMs: Date.now() - startedMs });
  }
  return lines;
}
