import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import axe from 'axe-core';
import WebSocket from 'ws';
import { until } from './until.ts';

const startLimitMs = 60_000;

/**
 * A tab of Debian's Chromium, without a window, which a test controls as a person does: with addresses, texts and
 * buttons.
 */
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
      // Its children are in its process group, so they end with it.
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
    // The browser listens before its first page exists.
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
    // Without this, a browser without a window has no focus and no access to the clipboard.
    await tab.#send('Emulation.setFocusEmulationEnabled', { enabled: true });
    socket.on('message', (data: WebSocket.RawData) => tab.#note(JSON.parse(String(data))));
    return tab;
  }

  /** What the browser reported about the pages: violations of their policies, exceptions, failed requests. */
  readonly reported: string[] = [];
  /** Questions of the pages (`confirm`, `prompt`). Each is answered with the next of `answers`, or refused. */
  readonly asked: string[] = [];
  readonly answers: string[] = [];

  #note({ method, params }: Message): void {
    if (method === 'Log.entryAdded') this.reported.push(params.entry.text);
    if (method !== 'Page.javascriptDialogOpening') return;
    this.asked.push(params.message);
    const promptText = this.answers.shift();
    const accept = promptText !== undefined || params.type === 'beforeunload';
    // No result is needed: the page shows by its behaviour whether it got the answer.
    this.#send('Page.handleJavaScriptDialog', { accept, promptText: promptText ?? '' }).catch(() => undefined);
  }

  /** Types into the focused element. A line end is the Enter key. */
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

  async prefer(colorScheme: 'light' | 'dark'): Promise<void> {
    const features = [{ name: 'prefers-color-scheme', value: colorScheme }];
    await this.#send('Emulation.setEmulatedMedia', { features });
  }

  /** Makes the browser one of a phone, whose pointer is a finger. */
  async beTouched(enabled: boolean): Promise<void> {
    await this.#send('Emulation.setTouchEmulationEnabled', { enabled });
    await this.#send('Emulation.setEmitTouchEventsForMouse', { enabled, configuration: 'mobile' });
  }

  /**
   * Violations of the rules of axe-core for accessibility, in the page as it is now. Its script runs in a world of its
   * own, so the policy of the page does not apply to it.
   */
  async accessibilityViolations(): Promise<string[]> {
    const { frameTree } = (await this.#send('Page.getFrameTree')) as { frameTree: { frame: Frame } };
    const world = await this.#send('Page.createIsolatedWorld', { frameId: frameTree.frame.id });
    const { executionContextId: contextId } = world as { executionContextId: number };
    const expression = `${axe.source}; axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).join(', ')))`;
    const asked = { contextId, expression, returnByValue: true, awaitPromise: true };
    const { result, exceptionDetails } = (await this.#send('Runtime.evaluate', asked)) as Evaluated<string[]>;
    if (exceptionDetails) throw new Error(`axe-core failed: ${JSON.stringify(exceptionDetails)}`);
    return result.value;
  }

  async reload(): Promise<void> {
    await this.#loaded(() => this.#send('Page.reload'));
  }

  /** Drops files of this machine onto the middle of the page. */
  async drop(files: string[]): Promise<void> {
    const data = { items: [], files, dragOperationsMask: 1 };
    for (const type of ['dragEnter', 'dragOver', 'drop']) {
      await this.#send('Input.dispatchDragEvent', { type, x: 400, y: 300, data });
    }
  }

  /** Downloads of the pages are stored in the folder. */
  async downloadTo(folder: string): Promise<void> {
    await this.#send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder });
  }

  /** Grants the page's origin permissions that a person would be asked for, such as `clipboardReadWrite`. */
  async grant(origin: string, ...permissions: string[]): Promise<void> {
    await this.#send('Browser.grantPermissions', { origin, permissions });
  }

  /** Stores the visible page as a PNG file. */
  async screenshot(file: string): Promise<void> {
    const { data } = (await this.#send('Page.captureScreenshot', { format: 'png' })) as { data: string };
    fs.writeFileSync(file, Buffer.from(data, 'base64'));
  }

  async goTo(url: string): Promise<void> {
    await this.#loaded(() => this.#send('Page.navigate', { url }));
  }

  /** Types into the fields with these names and submits their form. */
  async submit(fields: Record<string, string>): Promise<void> {
    await this.evaluate(
      `for (const [name, text] of Object.entries(${JSON.stringify(fields)})) document.querySelector('input[name=' + name + ']').value = text`,
    );
    await this.#loaded(() => this.evaluate(`document.querySelector('form').requestSubmit()`));
  }

  /** Follows the link that a selector finds. */
  async follow(selector: string): Promise<void> {
    await this.#loaded(() => this.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`));
  }

  /** Returns the value of an expression in the page. */
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

  /**
   * Waits until another document than the present one has loaded. The load event of the present one may still be to
   * come.
   */
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

interface Evaluated<T> {
  result: { value: T };
  exceptionDetails?: object;
}

interface Frame {
  id: string;
  /** Id of the document in the frame. */
  loaderId: string;
}

interface KeyPress {
  text?: string;
  /** The number of the key. The default is the number of its letter. */
  code?: number;
  modifiers?: number;
  /** The editor command that the key invokes: `paste`, `copy`. */
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
