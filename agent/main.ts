import fs from 'node:fs';
import v8 from 'node:v8';
import { createEnvironment } from './boot/environment.ts';
import { PlatformPaths } from './boot/platform.ts';
import { parseInit, type SandboxState } from './boot/sandbox-state.ts';
import { filesystemServices } from './filesystem/service.ts';
import { createAgentServer } from './http/server.ts';
import { processServices } from './process/service.ts';
import { procedureTable } from './rpc/procedure.ts';

/** Starts the agent from its boot document (BOOT.md), or from the environment when standard input is empty. */
function main(): void {
  const boot = readBootDocument();
  const state: SandboxState = { platformToken: null, init: undefined };
  const environment = createEnvironment(() => state.init?.env ?? {});
  const platform = new PlatformPaths(
    state,
    environment,
    process.env.AGENT_COMMAND_TAIL || '/run/platform/command.tail',
  );
  if (boot === undefined) {
    state.platformToken = process.env.AGENT_PLATFORM_TOKEN || null;
    const accessToken = process.env.AGENT_ACCESS_TOKEN || null;
    platform.initialise(parseInit({ sandboxId: process.env.AGENT_SANDBOX_ID || 'sbx-local', accessToken }));
  } else {
    if (typeof boot.platformToken !== 'string' || boot.platformToken === '') {
      throw new TypeError('the boot document has no platformToken');
    }
    state.platformToken = boot.platformToken;
    if (boot.init) platform.initialise(parseInit(boot.init));
  }
  const services = [...filesystemServices(environment), ...processServices(environment)];
  const server = createAgentServer({ state, platform, environment, procedures: procedureTable(services) });
  server.listen(Number(process.env.AGENT_PORT || 49983), process.env.AGENT_LISTEN || '0.0.0.0');
  process.on('SIGTERM', () => process.exit(0));
  process.on('SIGINT', () => process.exit(0));
}

/** The JSON document on standard input; undefined when there is none. */
function readBootDocument(): Record<string, unknown> | undefined {
  if (process.stdin.isTTY) return undefined;
  const text = fs.readFileSync(0, 'utf8');
  return text.trim() === '' ? undefined : JSON.parse(text);
}

if (v8.startupSnapshot.isBuildingSnapshot()) v8.startupSnapshot.setDeserializeMainFunction(main);
else main();
