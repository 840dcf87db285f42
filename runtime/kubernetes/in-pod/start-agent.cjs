// Usage: start-agent.cjs <size of the boot document in bytes>. Starts the agent in the sandbox's container. It reads
// the boot document from standard input.
const { spawn } = require('node:child_process');

const expected = Number(process.argv[2]);
const chunks = [];
let received = 0;
process.stdin.on('data', (chunk) => {
  chunks.push(chunk);
  received += chunk.length;
  if (received >= expected) start(JSON.parse(Buffer.concat(chunks).subarray(0, expected).toString()));
});
process.stdin.on('end', () => {
  if (received < expected) process.exit(1);
});

function start(document) {
  process.stdin.removeAllListeners();
  // The agent runs with the image's variables, without those of the cluster. Variables that Node and the dynamic loader
  // read could change the agent itself, so they only become part of the sandbox's environment.
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith('KUBERNETES_'));
  const isRead = ([name]) => /^(NODE_|LD_|SSL_CERT_)/.test(name);
  document.env = Object.fromEntries(entries.filter(isRead));
  const own = Object.fromEntries(entries.filter((entry) => !isRead(entry)));
  const agent = spawn('/.platform/bin/node', ['/.platform/agent/agent.cjs'], {
    detached: true,
    // An agent without a sandbox prepares as much as possible before it gets one.
    env: document.init ? own : { ...own, AGENT_PREPARE: '1' },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  agent.on('error', () => process.exit(1));
  agent.stdin.end(JSON.stringify(document), () => process.exit(0));
}
