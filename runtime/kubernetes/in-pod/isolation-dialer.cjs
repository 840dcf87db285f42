// Tries to reach addresses, and writes what it reached to the termination message, as `isolation-probe.ts` reads it.
// isolation-dialer.cjs <file of the message> <what to try, as JSON: { name: { host?, port?, word?, wanted } }>
// Without a host it is the API server, as pods find it. `wanted`: `reached` tries again until it is reached; `closed` tries
// again until three tries in turn fail.
const fs = require('node:fs');
const net = require('node:net');

const [file, targets] = process.argv.slice(2);
const tryMs = 700;
// A policy may come into force some time after the pod. On a busy node a try may take longer than it should.
const leastMs = 10_000;
const leastTries = 15;
const fromMs = performance.now();

Promise.all(Object.entries(JSON.parse(targets)).map(async ([name, target]) => [name, await reach(target)])).then(
  (found) => fs.writeFileSync(file, JSON.stringify(Object.fromEntries(found))),
);

/** `lastMs`: since the process began, of the last try that reached it; null: none did. */
async function reach({ wanted, ...target }) {
  let failures = 0;
  let lastMs = null;
  for (let tries = 0; tries < leastTries || performance.now() - fromMs < leastMs; tries += 1) {
    const triedMs = performance.now();
    if (await connect(target)) {
      lastMs = Math.round(triedMs - fromMs);
      failures = 0;
      if (wanted === 'reached') return { reached: true, lastMs };
    } else {
      failures += 1;
      if (wanted === 'closed' && failures === 3) return { reached: false, lastMs };
    }
    await new Promise((next) => setTimeout(next, 50));
  }
  return { reached: wanted === 'closed', lastMs };
}

/** Whether the address takes a connection and, where a word is expected, answers with it: others may answer for anyone. */
function connect({ host = process.env.KUBERNETES_SERVICE_HOST, port = process.env.KUBERNETES_SERVICE_PORT, word }) {
  return new Promise((done) => {
    const socket = net.connect({ host, port });
    let said = '';
    const end = (result) => {
      socket.destroy();
      done(result);
    };
    socket.setTimeout(tryMs, () => end(false));
    socket.on('connect', () => word === undefined && end(true));
    socket.on('data', (data) => {
      said += data;
      if (word !== undefined && said.length >= word.length) end(said === word);
    });
    socket.on('error', () => end(false));
    socket.on('close', () => end(false));
  });
}
