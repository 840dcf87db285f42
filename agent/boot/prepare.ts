import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import type { LoadedPaths } from '../http/sandbox-paths.ts';
import type { SandboxState } from './sandbox-state.ts';

/**
 * Does before the boot document what an agent otherwise does after it: loads everything, answers requests once, and gives
 * memory back. A member of the pool is prepared and then frozen, so the create that claims it does not pay for this.
 * @param server not yet listening; it is not afterwards either
 */
export async function prepare(
  state: SandboxState,
  server: net.Server,
  load: () => Promise<LoadedPaths>,
): Promise<void> {
  const { releaseMemory } = await load();
  // An abstract socket: it has no file, and only the sandbox's own network namespace reaches it.
  const path = `\0agent-${randomUUID()}`;
  const token = randomUUID();
  state.platformToken = token;
  server.listen({ path });
  await once(server, 'listening');
  await ask(path, `GET /health HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n`);
  await ask(
    path,
    `GET /platform/state HTTP/1.1\r\nHost: agent\r\nX-Platform-Token: ${token}\r\nConnection: close\r\n\r\n`,
  );
  // Not waited for: after a restart, a process of the sandbox could keep a connection to it.
  server.close();
  state.platformToken = null;
  releaseMemory();
}

async function ask(path: string, request: string): Promise<void> {
  const client = net.connect({ path });
  client.resume();
  client.write(request);
  await once(client, 'close');
}
