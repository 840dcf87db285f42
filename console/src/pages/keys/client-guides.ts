interface Guide {
  client: string;
  steps: readonly { about: string; code: string }[];
}

/**
 * The first steps with each client, as in `docs/quick-start.md`, `docs/e2b.md` and the clients' own guides.
 * @param given.url the platform's address, without a slash at its end
 * @param given.wheel the name of the file of the Python client
 */
export function clientGuides(given: { url: string; apiKey: string; e2bKey: string; wheel: string }): readonly Guide[] {
  const settings = {
    about: 'Once in this shell:',
    code: `export PLATFORM_URL=${given.url}\nexport PLATFORM_API_KEY=${given.apiKey}`,
  };
  return [
    { client: 'curl', steps: [settings, { about: 'Create a sandbox:', code: curl }] },
    {
      client: 'TypeScript',
      steps: [
        settings,
        { about: 'Install the client:', code: 'npm install "$PLATFORM_URL/clients/sandbox-platform-client.tgz"' },
        { about: 'Save as hello.mts, and run it with node hello.mts (Node 24):', code: typeScript },
      ],
    },
    {
      client: 'Python',
      steps: [
        settings,
        {
          about: 'Install the client:',
          code: `python3 -m venv venv\nvenv/bin/pip install "$PLATFORM_URL/clients/${given.wheel}"`,
        },
        { about: 'Save as hello.py, and run it with venv/bin/python hello.py:', code: python },
      ],
    },
    {
      client: 'Command line',
      steps: [
        settings,
        { about: 'Install it:', code: 'npm install "$PLATFORM_URL/clients/sandbox-platform-client.tgz"' },
        { about: 'Create a sandbox, and work in it:', code: commandLine },
      ],
    },
    {
      client: 'AI agents (MCP)',
      steps: [
        settings,
        {
          about: 'Install the server:',
          code: 'npm install --prefix ~/sandbox-mcp "$PLATFORM_URL/clients/sandbox-platform-mcp.tgz"',
        },
        {
          about: 'In the settings of the agent, with your home folder in place of /home/me:',
          code: mcpSettings(given),
        },
      ],
    },
    {
      client: 'SDKs and command line of E2B',
      steps: [
        {
          about: 'If the platform has a domain with a certificate, with that domain:',
          code: `export E2B_DOMAIN=${domainOf(given.url)} E2B_API_KEY=${given.e2bKey}`,
        },
        {
          about: 'On one machine without one, with the gateway as PLATFORM_GATEWAY of platform.env names it:',
          code: `export E2B_API_URL=${given.url}/e2b E2B_SANDBOX_URL=$PLATFORM_GATEWAY E2B_API_KEY=${given.e2bKey}`,
        },
        { about: 'TypeScript, after npm install e2b:', code: e2bTypeScript },
        { about: 'Python, after pip install e2b:', code: e2bPython },
      ],
    },
  ];
}

const curl = `curl -sS -H "X-API-Key: $PLATFORM_API_KEY" -H 'Content-Type: application/json' \\
     -d '{"name": "hello", "timeout": 300}' "$PLATFORM_URL/v1/sandboxes"`;

const typeScript = `import { Sandbox } from '@sandbox-platform/client';

await using sandbox = await Sandbox.create({ template: 'base', timeoutSeconds: 300 });
const { stdout } = await sandbox.commands.run('echo "hello from $(cat /etc/hostname)"');
console.log(stdout);`;

const python = `from sandbox_platform import Sandbox

with Sandbox.create("base", timeout=300) as sandbox:
    print(sandbox.commands.run("echo hello from $(cat /etc/hostname)").stdout)`;

const commandLine = `ID=$(node_modules/.bin/sandbox-platform create --timeout 300)
node_modules/.bin/sandbox-platform exec $ID -- 'echo "hello from $(cat /etc/hostname)"'
node_modules/.bin/sandbox-platform shell $ID
node_modules/.bin/sandbox-platform kill $ID`;

const mcpSettings = ({ url, apiKey }: { url: string; apiKey: string }) =>
  JSON.stringify(
    {
      mcpServers: {
        sandboxes: {
          command: 'node',
          args: ['/home/me/sandbox-mcp/node_modules/@sandbox-platform/mcp/dist/main.js'],
          env: { PLATFORM_URL: url, PLATFORM_API_KEY: apiKey },
        },
      },
    },
    null,
    2,
  );

/** The domain, if the console is at `api.<domain>`; otherwise an example. */
function domainOf(url: string): string {
  const { hostname } = new URL(url);
  return hostname.startsWith('api.') ? hostname.slice('api.'.length) : 'sandboxes.example.com';
}

const e2bTypeScript = `import { Sandbox } from 'e2b';

const sandbox = await Sandbox.create({ timeoutMs: 300_000 });
const { stdout } = await sandbox.commands.run('echo "hello from $(cat /etc/hostname)"');
console.log(stdout);
await sandbox.kill();`;

const e2bPython = `from e2b import Sandbox

with Sandbox.create(timeout=300) as sandbox:
    print(sandbox.commands.run("echo hello from $(cat /etc/hostname)").stdout)`;
