// Usage: isolation-dialer.cjs <file of the termination message> <targets as JSON: { name: { host?, port?, word?, wanted
// } }> Tries to connect to each target, and writes the results to the termination message. `isolation-probe.ts` reads
// them. A target without a host is the API server, at the address in the pod's environment. With `wanted: reached` the
// program tries until a connection succeeds; with `wanted: closed` until three attempts one after the other fail.
const fs = require('node:fs');
const net = require('node:net');

const [file, targets] = process.argv.slice(2);
const tryMs = 700;
// Some clusters apply a policy some time after the pod has started. On a busy node an attempt may take longer than
// `tryMs`.
const minMs = 10_000;
const minTries = 15;
const fromMs = performance.now();

Promise.all(Object.entries(JSON.parse(targets)).map(async ([name, target]) => [name, await reach(target)])).then(
  (found) => fs.writeFileSync(file, JSON.stringify(Object.fromEntries(found))),
);

/**
 * `lastMs` is the start of the last successful attempt, counted from the start of this process. Null: none succeeded.
 */
async function reach({ wanted, ...target }) {
  let failures = 0;
  let lastMs = null;
  for (let tries = 0; tries < minTries || performance.now() - fromMs < minMs; tries += 1) {
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

/**
 * Whether the address accepts a connection and answers with the expected word, if there is one. A connection alone may
 * be to a proxy that accepts connections for any address.
 */
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
