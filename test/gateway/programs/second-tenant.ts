import http from 'node:http';
import type net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * A sandbox that answers, and its client, which sends requests through the gateway repeatedly and measures them.
 * Messages set the label of the measurements. An answer other than `200` ends the process.
 */
const pauseMs = 3;
const samples: Record<string, number[]> = { hostile: [], plain: [] };
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
let label: string | null = null;

const server = http.createServer((_request, response) => response.end('second'));
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send!({ port: (server.address() as net.AddressInfo).port }));

function ask(gatewayPort: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: gatewayPort, agent, headers: { host: 'sbx-second.sandbox.localhost' } };
    const request = http.get(options, (response) => {
      if (response.statusCode !== 200) reject(new Error(`the second tenant got ${response.statusCode}`));
      response.resume().once('end', resolve);
    });
    request.once('error', reject);
  });
}

async function measure(gatewayPort: number): Promise<never> {
  for (;;) {
    const under = label;
    const startedAt = performance.now();
    await ask(gatewayPort);
    if (under !== null && under === label) samples[under]!.push(performance.now() - startedAt);
    await delay(pauseMs);
  }
}

process.on('message', async (message: { gatewayPort?: number; label?: string | null; finish?: boolean }) => {
  if (message.gatewayPort) {
    await ask(message.gatewayPort);
    void measure(message.gatewayPort);
    process.send!({ begun: true });
  } else if (message.finish) process.send!(samples);
  else label = message.label ?? null;
});
process.on('disconnect', () => process.exit(0));
