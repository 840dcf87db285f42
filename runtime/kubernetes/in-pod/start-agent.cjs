// Starts the agent beside the sandbox's first process. start-agent.cjs <bytes of the boot document on standard input>
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
  // The agent gets the image's variables, except those that Node itself and the loader read, and none of the cluster's.
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith('KUBERNETES_'));
  const isRead = ([name]) => /^(NODE_|LD_|SSL_CERT_)/.test(name);
  document.env = Object.fromEntries(entries.filter(isRead));
  const own = Object.fromEntries(entries.filter((entry) => !isRead(entry)));
  const agent = spawn('/.platform/bin/node', ['/.platform/agent/agent.cjs'], {
    detached: true,
    // Without a sandbox yet it does all that it can before one comes.
    env: document.init ? own : { ...own, AGENT_PREPARE: '1' },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  agent.on('error', () => process.exit(1));
  agent.stdin.end(JSON.stringify(document), () => process.exit(0));
}
