import fs from 'node:fs';
import tty from 'node:tty';
import { trustAuthorities } from './boot/authorities.ts';
import { createEnvironment } from './boot/environment.ts';
import { PlatformPaths } from './boot/platform.ts';
import { prepare } from './boot/prepare.ts';
import { parseEnv, parseInit, type SandboxState } from './boot/sandbox-state.ts';
import type { LoadedPaths } from './http/sandbox-paths.ts';
import { createAgentServer } from './http/server.ts';

/** If there is no request within this time, the other modules are loaded. */
const loadAfterMs = 500;

/**
 * Starts the threads for system calls with a first call. libuv would otherwise start them later, and it aborts the
 * process if the sandbox is at its limit of processes then.
 */
function startThreads(): void {
  fs.stat('/', () => {});
}

/** Starts the agent from its boot document (BOOT.md), or from the environment when standard input is empty. */
async function main(): Promise<void> {
  const state: SandboxState = { platformToken: null, env: {}, init: undefined };
  const environment = createEnvironment(() => ({ ...state.env, ...state.init?.env }), await trustAuthorities());
  // The threads are for system calls that may block. Set after the environment of processes was read.
  process.env.UV_THREADPOOL_SIZE ??= '8';
  const platform = new PlatformPaths(
    state,
    environment,
    process.env.AGENT_COMMAND_TAIL || '/run/platform/command.tail',
    async (req, res) => (await load()).serveExec(req, res),
  );

  // Modules that `/health` does not need are loaded after its first answer, or soon after the start, so that it answers
  // sooner.
  let sandboxPaths: LoadedPaths | undefined;
  const load = async () => {
    // The promise is kept, because each `import` would read and run the bundle again.
    if (sandboxPaths) return sandboxPaths;
    startThreads();
    const { createSandboxPaths } = await import('./http/sandbox-paths.ts');
    sandboxPaths ??= createSandboxPaths(state, environment);
    return sandboxPaths;
  };
  let loadSoon: NodeJS.Timeout | undefined;
  const server = createAgentServer(platform, {
    onAnswered() {
      clearTimeout(loadSoon);
      if (!sandboxPaths) setImmediate(load);
    },
    serve: (req, res) => (sandboxPaths ? sandboxPaths.serve(req, res) : load().then(({ serve }) => serve(req, res))),
  });
  if (process.env.AGENT_PREPARE) await prepare(state, server, load);

  const boot = readBootDocument();
  if (boot === undefined) {
    state.platformToken = process.env.AGENT_PLATFORM_TOKEN || null;
    const accessToken = process.env.AGENT_ACCESS_TOKEN || null;
    platform.initialise(parseInit({ sandboxId: process.env.AGENT_SANDBOX_ID || 'sbx-local', accessToken }));
  } else {
    if (typeof boot.platformToken !== 'string' || boot.platformToken === '') {
      throw new TypeError('the boot document has no platformToken');
    }
    state.platformToken = boot.platformToken;
    state.env = parseEnv(boot.env);
    if (boot.init) platform.initialise(parseInit(boot.init));
  }
  if (!sandboxPaths) loadSoon = setTimeout(load, loadAfterMs);
  server.listen({ port: Number(process.env.AGENT_PORT || 49983), host: process.env.AGENT_LISTEN || undefined });
  process.on('SIGTERM', () => process.exit(0));
  process.on('SIGINT', () => process.exit(0));
}

/** The JSON document on standard input; undefined when there is none. */
function readBootDocument(): Record<string, unknown> | undefined {
  if (tty.isatty(0)) return undefined;
  const text = fs.readFileSync(0, 'utf8');
  return text.trim() === '' ? undefined : JSON.parse(text);
}

void main();
