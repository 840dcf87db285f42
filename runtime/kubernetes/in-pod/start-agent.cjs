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
  // The image's variables are the agent's, but for those that Node itself and the loader read; the cluster's are nobody's.
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith('KUBERNETES_'));
  const isRead = ([name]) => /^(NODE_|LD_|SSL_CERT_)/.test(name);
  if (document.init) document.init.env = { ...Object.fromEntries(entries.filter(isRead)), ...document.init.env };
  const agent = spawn('/.platform/bin/node', ['/.platform/agent/agent.cjs'], {
    detached: true,
    env: Object.fromEntries(entries.filter((entry) => !isRead(entry))),
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  agent.on('error', () => process.exit(1));
  agent.stdin.end(JSON.stringify(document), () => process.exit(0));
}
