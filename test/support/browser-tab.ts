import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import WebSocket from 'ws';

const startLimitMs = 60_000;

/** One tab of Debian's Chromium, without a window, driven as a person drives it: addresses, texts, buttons. */
export class BrowserTab {
  readonly #browser: ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;
  #lastId = 0;

  private constructor(browser: ChildProcess, profile: string, socket: WebSocket) {
    this.#browser = browser;
    this.#profile = profile;
    this.#socket = socket;
  }

  static async open(): Promise<BrowserTab> {
    const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-browser-'));
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'];
    const browser = spawn(
      'chromium',
      [...flags, '--remote-debugging-port=0', `--user-data-dir=${profile}`, 'about:blank'],
      // Its children are of its group, so that they end with it.
      { stdio: ['ignore', 'ignore', 'pipe'], detached: true },
    );
    let said = '';
    const port = await new Promise<string>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`Chromium did not start:\n${said}`)), startLimitMs);
      browser.once('error', reject);
      browser.stderr!.on('data', (chunk) => {
        said += chunk;
        const [, found] = /DevTools listening on ws:\/\/127\.0\.0\.1:(\d+)/.exec(said) ?? [];
        if (!found) return;
        clearTimeout(timer);
        resolve(found);
      });
    });
    const tabs = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as {
      type: string;
      webSocketDebuggerUrl: string;
    }[];
    const socket = new WebSocket(tabs.find(({ type }) => type === 'page')!.webSocketDebuggerUrl);
    await once(socket, 'open');
    const tab = new BrowserTab(browser, profile, socket);
    await tab.#send('Page.enable');
    return tab;
  }

  async goTo(url: string): Promise<void> {
    await this.#loaded(() => this.#send('Page.navigate', { url }));
  }

  /** Types into fields, by name, and presses the button. */
  async submit(fields: Record<string, string>): Promise<void> {
    await this.evaluate(
      `for (const [name, text] of Object.entries(${JSON.stringify(fields)})) document.querySelector('input[name=' + name + ']').value = text`,
    );
    await this.#loaded(() => this.evaluate(`document.querySelector('button').click()`));
  }

  /** Follows the link that a selector finds. */
  async follow(selector: string): Promise<void> {
    await this.#loaded(() => this.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`));
  }

  /** The value of an expression in the page. */
  async evaluate<T>(expression: string): Promise<T> {
    const { result } = (await this.#send('Runtime.evaluate', { expression, returnByValue: true })) as {
      result: { value: T };
    };
    return result.value;
  }

  async close(): Promise<void> {
    const ended = once(this.#browser, 'exit');
    process.kill(-this.#browser.pid!, 'SIGKILL');
    await ended;
    fs.rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  async #loaded(start: () => Promise<unknown>): Promise<void> {
    const loaded = this.#message(({ method }) => method === 'Page.loadEventFired');
    await start();
    await loaded;
  }

  async #send(method: string, params: object = {}): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = this.#message((message) => message.id === id);
    this.#socket.send(JSON.stringify({ id, method, params }));
    const { result, error } = await answer;
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  #message(isIt: (message: Message) => boolean): Promise<Message> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('Chromium does not answer')), startLimitMs);
      const listen = (data: WebSocket.RawData) => {
        const message: Message = JSON.parse(String(data));
        if (!isIt(message)) return;
        clearTimeout(timer);
        this.#socket.off('message', listen);
        resolve(message);
      };
      this.#socket.on('message', listen);
    });
  }
}

interface Message {
  id?: number;
  method?: string;
  result?: unknown;
  error?: { message: string };
}
