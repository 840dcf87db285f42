import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import type { LoadedPaths } from '../http/sandbox-paths.ts';
import type { SandboxState } from './sandbox-state.ts';

/** V8's first timed collection comes 8 s after the start or later. */
const beforeTimedCollectionsMs = 6000;

/**
 * Does work before the boot document that an agent otherwise does after it: loads all modules, answers one request of
 * each kind, and releases memory. A member of the pool is prepared and then frozen, so the create that claims it saves
 * this time.
 * @param server does not listen before or after the call
 */
export async function prepare(
  state: SandboxState,
  server: net.Server,
  load: () => Promise<LoadedPaths>,
): Promise<void> {
  const { releaseMemory } = await load();
  // An abstract socket has no file, and only the sandbox's own network namespace can reach it.
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
  // The close is not awaited, because after a restart a process of the sandbox could keep a connection open.
  server.close();
  state.platformToken = null;
  skipTimedCollections();
  releaseMemory();
}

/**
 * V8 collects an idle heap twice, 15 ms each, from 8 s after the start on: in a frozen member of the pool, when a create
 * claims it. `releaseMemory` does the same before. It must be set before the first of these collections, or V8 ends the
 * process, and after all modules are loaded, because V8 rejects code caches that were made with other flags.
 */
function skipTimedCollections(): void {
  if (performance.now() > beforeTimedCollectionsMs) return;
  process.getBuiltinModule('node:v8').setFlagsFromString('--memory-reducer-gc-count=0');
}

async function ask(path: string, request: string): Promise<void> {
  const client = net.connect({ path });
  client.resume();
  client.write(request);
  await once(client, 'close');
}
