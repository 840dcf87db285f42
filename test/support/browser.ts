import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';

/**
 * Opens a page in Debian's Chromium, without a window, and gives what it sends with `tell(value)`. The page's origin is
 * an address of its own, as that of a customer's web application is.
 * @param script runs in the page
 * @throws when the page has reported nothing within the limit
 */
export async function inBrowser<T>(script: string, limitMs = 60_000): Promise<T> {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-browser-'));
  let reported: (value: T) => void = () => {};
  const answer = new Promise<T>((resolve) => {
    reported = resolve;
  });
  const page = `<!doctype html><title>test</title><script type="module">
    const tell = (value) => fetch('/reported', { method: 'POST', body: JSON.stringify(value) });
    ${script}
  </script>`;
  const server = http.createServer(async (request, reply) => {
    if (request.method === 'POST') reported(JSON.parse(await text(request)));
    reply.writeHead(200, { 'content-type': 'text/html' }).end(page);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'];
  const browser = spawn('chromium', [...flags, '--remote-debugging-port=0', `--user-data-dir=${profile}`, address], {
    stdio: ['ignore', 'ignore', 'pipe'],
    // Its children are in its process group, so they end with it.
    detached: true,
  });
  let complaints = '';
  browser.stderr!.on('data', (chunk) => {
    complaints += chunk;
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const fail = () => reject(new Error(`the page reported nothing within ${limitMs} ms:\n${complaints}`));
    timer = setTimeout(fail, limitMs);
    browser.once('error', reject);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
    await end(browser);
    server.closeAllConnections();
    server.close();
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
}

async function end(browser: ChildProcess): Promise<void> {
  if (browser.pid === undefined || browser.exitCode !== null || browser.signalCode !== null) return;
  const ended = once(browser, 'exit');
  process.kill(-browser.pid, 'SIGKILL');
  await ended;
}
