import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import WebSocket from 'ws';
import { until } from './until.ts';

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
    // The browser listens before its first page is there.
    let address: string | undefined;
    await until(async () => {
      const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as Target[];
      address = targets.find(({ type }) => type === 'page')?.webSocketDebuggerUrl;
      return address !== undefined;
    }, startLimitMs);
    const socket = new WebSocket(address!);
    await once(socket, 'open');
    const tab = new BrowserTab(browser, profile, socket);
    await tab.#send('Page.enable');
    await tab.#send('Page.setLifecycleEventsEnabled', { enabled: true });
    await tab.#send('Log.enable');
    // Without a window it would have no focus, and no access to the clipboard.
    await tab.#send('Emulation.setFocusEmulationEnabled', { enabled: true });
    socket.on('message', (data: WebSocket.RawData) => tab.#note(JSON.parse(String(data))));
    return tab;
  }

  /** What the browser reported of the pages: violations of their policies, exceptions, failed requests. */
  readonly reported: string[] = [];
  /** Questions of the pages (`confirm`, `prompt`), each answered with the next of `answers`, or refused. */
  readonly asked: string[] = [];
  readonly answers: string[] = [];

  #note({ method, params }: Message): void {
    if (method === 'Log.entryAdded') this.reported.push(params.entry.text);
    if (method !== 'Page.javascriptDialogOpening') return;
    this.asked.push(params.message);
    const promptText = this.answers.shift();
    const accept = promptText !== undefined || params.type === 'beforeunload';
    // The page tells by what it does whether it was answered.
    this.#send('Page.handleJavaScriptDialog', { accept, promptText: promptText ?? '' }).catch(() => undefined);
  }

  /** Types into what has the focus. Line ends are the key Enter. */
  async type(text: string): Promise<void> {
    for (const [index, line] of text.split('\n').entries()) {
      if (index > 0) await this.press('Enter', { text: '\r', code: 13 });
      if (line !== '') await this.#send('Input.insertText', { text: line });
    }
  }

  /** @param modifiers 1 Alt, 2 Ctrl, 4 Meta, 8 Shift */
  async press(key: string, { text, code, modifiers = 0, command }: KeyPress = {}): Promise<void> {
    const windowsVirtualKeyCode = code ?? key.toUpperCase().charCodeAt(0);
    const common = { key, windowsVirtualKeyCode, modifiers };
    await this.#send('Input.dispatchKeyEvent', {
      ...common,
      type: text ? 'keyDown' : 'rawKeyDown',
      ...(text && { text }),
      ...(command && { commands: [command] }),
    });
    await this.#send('Input.dispatchKeyEvent', { ...common, type: 'keyUp' });
  }

  async doubleClick(x: number, y: number): Promise<void> {
    for (const clickCount of [1, 2]) {
      for (const type of ['mousePressed', 'mouseReleased']) {
        await this.#send('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount });
      }
    }
  }

  async resize(width: number, height: number): Promise<void> {
    await this.#send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  }

  async reload(): Promise<void> {
    await this.#loaded(() => this.#send('Page.reload'));
  }

  /** Drops files of this machine in the middle of the page. */
  async drop(files: string[]): Promise<void> {
    const data = { items: [], files, dragOperationsMask: 1 };
    for (const type of ['dragEnter', 'dragOver', 'drop']) {
      await this.#send('Input.dispatchDragEvent', { type, x: 400, y: 300, data });
    }
  }

  /** Files that the pages download go there. */
  async downloadTo(folder: string): Promise<void> {
    await this.#send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder });
  }

  /** Allows the page's origin what a person would be asked for, such as `clipboardReadWrite`. */
  async grant(origin: string, ...permissions: string[]): Promise<void> {
    await this.#send('Browser.grantPermissions', { origin, permissions });
  }

  /** The page as a person sees it, in PNG. */
  async screenshot(file: string): Promise<void> {
    const { data } = (await this.#send('Page.captureScreenshot', { format: 'png' })) as { data: string };
    fs.writeFileSync(file, Buffer.from(data, 'base64'));
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
    const awaited = { expression, returnByValue: true, awaitPromise: true };
    const { result } = (await this.#send('Runtime.evaluate', awaited)) as { result: { value: T } };
    return result.value;
  }

  async close(): Promise<void> {
    const ended = once(this.#browser, 'exit');
    process.kill(-this.#browser.pid!, 'SIGKILL');
    await ended;
    fs.rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  /** Waits until another document than the present one has loaded: the load of the present one may be on its way, too. */
  async #loaded(start: () => Promise<unknown>): Promise<void> {
    const { frameTree } = (await this.#send('Page.getFrameTree')) as { frameTree: { frame: Frame } };
    const { id, loaderId } = frameTree.frame;
    const loaded = this.#message(
      ({ method, params }) =>
        method === 'Page.lifecycleEvent' &&
        params.name === 'load' &&
        params.frameId === id &&
        params.loaderId !== loaderId,
    );
    await Promise.all([loaded, start()]);
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

interface Target {
  type: string;
  webSocketDebuggerUrl: string;
}

interface Frame {
  id: string;
  /** Of the document in it. */
  loaderId: string;
}

interface KeyPress {
  text?: string;
  /** The number of the key; that of its letter if left out. */
  code?: number;
  modifiers?: number;
  /** What the key does in an editor: `paste`, `copy`. */
  command?: string;
}

interface Message {
  id?: number;
  method?: string;
  // biome-ignore lint/suspicious/noExplicitAny: events of all shapes
  params?: any;
  result?: unknown;
  error?: { message: string };
}
