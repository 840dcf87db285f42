import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * `node agent/code-cache.mjs FOLDER NODE`: runs the built agent in the folder with the binary that will run it, sends it
 * the usual first requests of a sandbox, and makes it write its compiled code beside its bundles. The bytes differ each
 * time, so a release has none, and its set-up runs this program.
 */
const [folder, node] = process.argv.slice(2);
await writeCodeCache();

async function writeCodeCache() {
  const port = await freePort();
  const agent = spawn(node, [path.join(folder, 'agent.cjs')], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      PATH: process.env.PATH,
      AGENT_PORT: String(port),
      AGENT_LISTEN: '127.0.0.1',
      AGENT_CODE_CACHE: folder,
    },
  });
  const exited = once(agent, 'exit');
  const address = `http://127.0.0.1:${port}`;
  while (!(await fetch(`${address}/health`).catch(() => undefined))?.ok) {
    if (agent.exitCode !== null)
      throw new Error(`the agent ended with ${agent.exitCode} while its code cache was made`);
    await sleep(20);
  }
  const call = async (procedure, contentType, body) => {
    const url = `${address}/sandboxagent.${procedure}`;
    const reply = await fetch(url, { method: 'POST', headers: { 'content-type': contentType }, body });
    if (!reply.ok) throw new Error(`${procedure} answered ${reply.status} while the code cache was made`);
    await reply.arrayBuffer();
  };
  await call('Filesystem/Stat', 'application/json', JSON.stringify({ path: '/' }));
  const start = Buffer.from(JSON.stringify({ process: { cmd: '/bin/sh', args: ['-c', 'echo'] } }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(start.length, 1);
  await call('Process/Start', 'application/connect+json', Buffer.concat([head, start]));
  agent.kill('SIGUSR2');
  const [code] = await exited;
  if (code !== 0) throw new Error(`the agent ended with ${code} while it wrote its code cache`);
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
