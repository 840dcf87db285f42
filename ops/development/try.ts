import path from 'node:path';
import { readPlatformEnv } from '../local-stack/supervisor/platform-env.ts';
import { AgentClient } from './client/agent-client.ts';
import { PlatformClient } from './client/platform-client.ts';

/**
 * `npm run try [-- command …]`: creates a sandbox on the running platform, runs one command in it, and deletes it. As for
 * `sandbox-platform exec`, a single argument is a command line for the shell.
 */
const dataDir = path.resolve(process.env.PLATFORM_DATA_DIR || '.data');
const { PLATFORM_URL, PLATFORM_API_KEY } = { ...readPlatformEnv(dataDir), ...process.env };
if (!PLATFORM_URL || !PLATFORM_API_KEY) {
  console.error(`No PLATFORM_URL and PLATFORM_API_KEY in ${dataDir}/platform.env; start the platform with: npm start`);
  process.exit(1);
}
const [first = 'echo hello from $(cat /etc/hostname)', ...more] = process.argv.slice(2);
const [cmd, ...args] = more.length > 0 ? [first, ...more] : ['sh', '-c', first];
try {
  await tryIn(new PlatformClient(PLATFORM_URL, PLATFORM_API_KEY));
} catch (error) {
  const { message, cause } = error as Error;
  const isDown = message === 'fetch failed';
  const text = isDown ? `no platform answers (${(cause as Error).message}); start it with: npm start` : message;
  console.error(`${PLATFORM_URL}: ${text}`);
  process.exitCode = 1;
}

async function tryIn(platform: PlatformClient): Promise<void> {
  const startedMs = performance.now();
  const sandbox = await platform.createSandbox({ name: 'try' });
  console.log(`${sandbox.sandbox_id} is ${sandbox.status} after ${Math.round(performance.now() - startedMs)} ms`);
  const agent = new AgentClient(sandbox.sandbox_domain, sandbox.envd_access_token);
  try {
    const { exitCode, stdout, stderr } = await agent.run(cmd!, args);
    process.stdout.write(stdout);
    process.stderr.write(stderr);
    console.log(`exit code ${exitCode}, ${Math.round(performance.now() - startedMs)} ms after the create request`);
  } finally {
    agent.close();
    await platform.deleteSandbox(sandbox.sandbox_id);
  }
}
