import { type FileHandle, open } from 'node:fs/promises';
import { connect } from 'node:net';
import { AgentError } from '../sandbox-agent/agent-client.ts';

const timeoutMs = 5000;

/**
 * Makes the shim of a sandbox restart its agent, with this boot document as standard input. If the agent runs or is
 * being started, the shim drops the document.
 * @throws {AgentError} when the shim does not take the document in time
 */
export async function startAgentAgain(folder: string, document: object, signal: AbortSignal): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    // A socket's path may have at most 107 bytes, and the name of a data folder may be longer.
    handle = await open(folder, 'r');
    await send(`/proc/self/fd/${handle.fd}/agent.sock`, JSON.stringify(document), signal);
  } finally {
    await handle?.close();
  }
}

/** Ends when the kernel has the whole text. The reader gets it even after this end is closed. */
function send(path: string, text: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, signal });
    const timer = setTimeout(() => socket.destroy(new AgentError('the boot document is not taken')), timeoutMs);
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'ECONNRESET') reject(error);
    });
    socket.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    socket.end(text, () => socket.destroy());
  });
}
