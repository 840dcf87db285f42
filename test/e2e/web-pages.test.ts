import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { formatHost, type StartedGateway, startGateway } from '../gateway/started-gateway.ts';
import { startHttpUpstream } from '../gateway/upstream-server.ts';
import { BrowserTab } from '../support/browser-tab.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';

/** The web pages in Chromium, through a real gateway to a real agent; screenshots go to `WEB_PAGES_SCREENSHOTS`. */
jest.setTimeout(120_000);

const id = 'sbx-web';
const token = 'token-of-the-sandbox';
const agentProgram = path.join(import.meta.dirname, '../../agent/dist/agent.cjs');
let started: StartedGateway;
let agent: ChildProcess;
let home: string;
let tab: BrowserTab;
let origin: string;

beforeAll(async () => {
  home = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-web-'));
  [started, tab] = await Promise.all([startGateway(), BrowserTab.open()]);
  origin = `http://${formatHost(id)}:${started.port}`;
  const agentPort = await freePort();
  // The agent's home is that of its user in a separate account file, which only this test uses.
  fs.writeFileSync(path.join(home, '.passwd'), `root:x:0:0:root:${home}:/bin/bash\n`);
  fs.writeFileSync(path.join(home, '.bash_profile'), "PS1='$ '\n");
  const bound = ['--mount', 'sh', '-c', 'mount --bind "$HOME/.passwd" /etc/passwd && exec "$0" "$1"'];
  agent = spawn('unshare', [...bound, process.execPath, agentProgram], {
    env: {
      ...{ PATH: process.env.PATH, HOME: home, LANG: 'C.UTF-8' },
      ...{ AGENT_PORT: String(agentPort), AGENT_LISTEN: '127.0.0.1', AGENT_SANDBOX_ID: id },
      ...{ AGENT_ACCESS_TOKEN: token, AGENT_COMMAND_TAIL: path.join(home, '.tail') },
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  started.routes.set({ sandboxId: id as never, agentPort, secure: true, accessToken: token });
  await until(() =>
    fetch(`http://127.0.0.1:${agentPort}/health`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  await tab.resize(1000, 640);
  await tab.grant(origin, 'clipboardReadWrite', 'clipboardSanitizedWrite');
}, 120_000);

afterAll(async () => {
  await tab?.close();
  const ended = once(agent, 'exit');
  agent.kill();
  await ended;
  await started?.stop();
  fs.rmSync(home, { recursive: true });
});

afterEach(() =>
  expect(tab.reported.splice(0).filter((text) => /Content Security Policy|Trusted ?Type/i.test(text))).toEqual([]),
);

const status = () => tab.evaluate<string>(`document.querySelector('.status')?.textContent ?? ''`);
const shot = async (name: string) => {
  const folder = process.env.WEB_PAGES_SCREENSHOTS;
  if (folder) await tab.screenshot(path.join(folder, `${name}.png`));
};

describe('the terminal', () => {
  const screen = () =>
    tab.evaluate<string>(
      `[...document.querySelectorAll('.xterm-rows > div')].map((row) => row.textContent.replaceAll('\\u00a0', ' ').trimEnd()).join('\\n')`,
    );
  const shows = async (text: string | RegExp) => {
    let last = '';
    const isThere = async () => {
      last = await screen();
      return typeof text === 'string' ? last.includes(text) : text.test(last);
    };
    await until(isThere).catch(async () => {
      throw new Error(`the terminal does not show ${text}, but (${await status()}):\n${last}`);
    });
    return last;
  };
  const toClipboard = (text: string) => tab.evaluate(`navigator.clipboard.writeText(${JSON.stringify(text)})`);
  const paste = () => tab.press('v', { modifiers: 2, command: 'paste' });
  /** Sends Ctrl+C and waits for the prompt: earlier input would be lost with the interrupted program. */
  const interrupt = async () => {
    await tab.press('c', { modifiers: 2 });
    await until(async () => (await screen()).trimEnd().endsWith('\n$'));
  };
  const clear = async () => {
    await tab.type('clear\n');
    await until(async () => (await screen()).trim() === '$');
  };

  test('opens by its link, removes the token from the address, and runs typed commands', async () => {
    await tab.goTo(`${origin}/terminal#token=${token}`);
    await shows('$');
    expect(await tab.evaluate('location.href')).toBe(`${origin}/terminal`);
    expect(await tab.evaluate('document.cookie')).toBe('');
    await tab.type('echo $((6 * 7)) > answer; cat answer\n');
    await shows(/^42$/m);
    expect(fs.readFileSync(path.join(home, 'answer'), 'utf8')).toBe('42\n');
    await tab.type(
      "ls --color=always -d /etc; printf '\\033[1;32mgreen\\033[0m \\033[38;2;255;120;0mtrue color\\033[0m\\n'\n",
    );
    await shows(/^green true color/m);
    await shot('terminal');
  });

  test('gives wide, combining and joined characters their widths', async () => {
    await clear();
    await tab.type("printf '日本e\\u0301👍🏽ü\\033[6n'; IFS='[;' read -rs -d R _ _ column; echo \" column=$column\"\n");
    // 2 + 2 + 1 + 2 + 1 cells.
    await shows('column=9');
    await tab.type('echo żółć-مرحبا-👩‍💻\n');
    await shows(/^żółć-مرحبا-👩‍💻$/m);
    await shot('terminal-unicode');
  });

  test('informs programs of its size when the window changes', async () => {
    await clear();
    const size = async () => {
      await tab.type('stty size\n');
      const [last] = [...(await shows(/^\d+ \d+$/m)).matchAll(/^(\d+) (\d+)$/gm)].slice(-1);
      return [Number(last![1]), Number(last![2])];
    };
    const [rows, columns] = await size();
    await tab.resize(700, 400);
    await clear();
    await until(async () => {
      const [newRows, newColumns] = await size();
      return newRows! < rows! && newColumns! < columns!;
    });
    await tab.resize(1000, 640);
    await clear();
    // The width of a cell is rounded over all columns, so two fits may differ by one column.
    const isAsBefore = ([newRows, newColumns]: number[]) =>
      Math.abs(newRows! - rows!) <= 1 && Math.abs(newColumns! - columns!) <= 1;
    await until(async () => isAsBefore(await size())).catch(async () => {
      throw new Error(`${await size()} instead of ${rows},${columns}`);
    });
    const shownRows = () => tab.evaluate<number>(`document.querySelectorAll('.xterm-rows > div').length`);
    // The last size on the screen may be from the previous question.
    await until(async () => (await size())[0] === (await shownRows()));
  });

  test('pastes lines as one text, and copies the selection', async () => {
    await clear();
    await toClipboard('echo pasted 1\necho pasted 2');
    await paste();
    expect(await shows('echo pasted 2')).not.toMatch(/^pasted 1$/m);
    await tab.type('\n');
    await shows(/^pasted 1\npasted 2$/m);
    await clear();
    await tab.type('word');
    await shows('$ word');
    // The third cell of the first line.
    await tab.doubleClick(36, 58);
    await tab.press('c', { modifiers: 2 });
    await paste();
    await shows('$ wordword');
    // Nothing is selected, so Ctrl+C interrupts.
    await interrupt();
    // `sh` prints when it has the terminal. The shell can lose an interrupt that comes before.
    await tab.type("sh -c 'echo begun; exec sleep 1000'; echo over\n");
    await shows(/^begun$/m);
    await interrupt();
    expect(await screen()).not.toMatch(/^over$/m);
  });

  test('keeps its shell during a reload and a pause of the sandbox, and shows the state', async () => {
    await clear();
    await tab.type('kept=yes; (while :; do sleep 0.1; done) & echo\n');
    await shows(/^\[1\] \d+$/m);
    await tab.reload();
    await shows('$');
    await tab.type('echo "kept=$kept"\n');
    await shows(/^kept=yes$/m);
    started.routes.set({ sandboxId: id as never, status: 'paused' });
    await until(async () => (await status()).includes('paused'));
    await shot('terminal-paused');
    await tab.reload();
    await until(async () => (await status()).includes('paused'));
    started.routes.set({ sandboxId: id as never, status: 'running' });
    await until(async () => (await status()) === '');
    await tab.type('kill %1; echo "still=$kept"\n');
    await shows(/^still=yes$/m);
  });

  test('shows the prompt after a reload, also if the shell is too busy to see that its size changes twice', async () => {
    await tab.type('echo "pid=$$"\n');
    const pid = Number(/^pid=(\d+)$/m.exec(await shows(/^pid=\d+$/m))![1]);
    process.kill(pid, 'SIGSTOP');
    try {
      await tab.reload();
      await until(() => tab.evaluate<boolean>(`!document.querySelector('button').disabled`));
      // The time in which the page could change the size twice.
      await delay(1000);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await shows('$');
  });

  test('begins another shell after the end of one, and shows how it ended', async () => {
    await tab.type('exit 7\n');
    await shows('ended with 7');
    expect(await status()).toContain('Enter');
    await tab.press('Enter', { text: '\r', code: 13 });
    await until(async () => (await status()) === '');
    await tab.type('echo "new=$kept."\n');
    await shows(/^new=\.$/m);
  });

  test('has the keys that the keyboard of a phone lacks where the pointer is a finger', async () => {
    const isShown = () => tab.evaluate<boolean>(`document.querySelector('.keys').offsetHeight > 0`);
    expect(await isShown()).toBe(false);
    await tab.beTouched(true);
    try {
      await tab.resize(390, 700);
      await until(isShown);
      const key = (label: string) =>
        tab.evaluate(
          `[...document.querySelectorAll('.keys button')].find((each) => each.textContent === '${label}').click()`,
        );
      await clear();
      await tab.type('echo a');
      await key('|');
      await tab.type('cat ');
      await key('~');
      await key('/');
      await key('-');
      await shows('$ echo a|cat ~/-');
      await shot('terminal-phone');
      expect(await tab.accessibilityViolations()).toEqual([]);
      // Ctrl, then U empties the line.
      await key('Ctrl');
      expect(await tab.evaluate(`document.querySelector('.keys [aria-pressed]').ariaPressed`)).toBe('true');
      await tab.type('u');
      await until(async () => (await screen()).trim() === '$');
      expect(await tab.evaluate(`document.querySelector('.keys [aria-pressed]').ariaPressed`)).toBe('false');
      await tab.type('echo first\n');
      await shows(/^first$/m);
      await key('↑');
      await tab.type('-again\n');
      await shows(/^first-again$/m);
      await tab.type('echo 12');
      await key('←');
      await tab.type('x\n');
      await shows(/^1x2$/m);
      await tab.type(`echo ready; IFS= read -rsN 2 keys; printf '<%q>\\n' "$keys"\n`);
      await shows(/^ready$/m);
      await key('Esc');
      await key('Tab');
      await shows("<$'\\E\\t'>");
      await tab.type('echo begun; sleep 1000\n');
      await shows(/^begun$/m);
      await key('Ctrl');
      await tab.type('c');
      await until(async () => (await screen()).trimEnd().endsWith('\n$'));
    } finally {
      await tab.beTouched(false);
      await tab.resize(1000, 640);
    }
  });

  test('endless output does not block it, and a key still interrupts', async () => {
    await tab.type('yes without end\n');
    await shows(/^without end$/m);
    await interrupt();
    await tab.type('echo over\n');
    await shows(/^over$/m);
    const held = await tab.evaluate<number>('performance.memory.usedJSHeapSize');
    expect(held).toBeLessThan(200e6);
  });

  test('the sandbox has no access to the clipboard, the title and new windows', async () => {
    await clear();
    await toClipboard('# mine');
    await tab.type(
      "printf '\\033]52;c;ZXZpbA==\\007\\033]0;evil\\007\\033]8;;https://evil.example\\033\\\\link\\033]8;;\\033\\\\'; echo; echo done\n",
    );
    await shows(/^done$/m);
    await paste();
    await shows('$ # mine');
    expect(await tab.evaluate('document.title')).toBe('Terminal');
  });

  test('without a session it shows how to get one', async () => {
    await tab.goTo(`${origin}/terminal#token=wrong`);
    await until(async () => (await status()).includes('Open the page again by its link'));
    await shot('terminal-wrong-token');
  });
});

describe('the files', () => {
  const entries = () =>
    tab.evaluate<string[]>(`[...document.querySelectorAll('.entry')].map((entry) => entry.textContent)`);
  /** Clicks an element as soon as it exists and is enabled. */
  const click = (selector: string, label: string) =>
    until(() =>
      tab.evaluate<boolean>(`(() => {
        const found = [...document.querySelectorAll('${selector}')].find((each) => each.textContent === ${JSON.stringify(label)});
        if (!found || found.matches(':disabled')) return false;
        found.click();
        return true;
      })()`),
    );
  const choose = (name: string) => click('.entry', name);
  const press = (label: string) => click('button', label);
  const has = (name: string) => until(async () => (await entries()).includes(name));
  const editor = `document.querySelector('.editor')?.shadowRoot`;
  const text = () =>
    tab.evaluate<string | null>(
      `(() => { const lines = ${editor}?.querySelectorAll('.cm-line'); return lines ? [...lines].map((line) => line.textContent).join('\\n') : null; })()`,
    );
  const focusEditor = () => tab.evaluate(`${editor}.querySelector('.cm-content').focus()`);
  const file = (name: string) => path.join(home, name);
  const picture = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAEElEQVR42mOQCrsNRwzEcQAOIhSx2klzDQAAAABJRU5ErkJggg==',
    'base64',
  );

  beforeAll(async () => {
    fs.mkdirSync(file('folder/below'), { recursive: true });
    fs.writeFileSync(file('folder/below/deep.txt'), 'deep');
    fs.writeFileSync(file('notes.txt'), 'first\r\nsecond\r\n');
    fs.writeFileSync(
      file('page.html'),
      '<script>document.title = "evil"</script><img src=x onerror="document.title = 1">',
    );
    fs.writeFileSync(file('picture.svg'), '<svg xmlns="http://www.w3.org/2000/svg" onload="document.title = 2"/>');
    fs.writeFileSync(
      file('hostile.txt'),
      '<b>\u202etxt</b>\n<img src=x onerror="document.title = 3">\u200b\nneedle\u0007\n',
    );
    fs.writeFileSync(file('picture.bin'), picture);
    fs.writeFileSync(file('random.bin'), Buffer.from([0, 1, 2, 255]));
    fs.writeFileSync(file('<img src=x onerror=alert(1)>'), 'harmless');
    fs.writeFileSync(file('gpj.\u202eexe\nname'), 'turned');
    fs.writeFileSync(Buffer.concat([Buffer.from(`${home}/stray-`), Buffer.from([0xff])]), 'stray');
    await tab.goTo(`${origin}/files#token=${token}`);
    await has('notes.txt');
  });

  afterAll(() => fs.rmSync(Buffer.concat([Buffer.from(`${home}/stray-`), Buffer.from([0xff])])));

  test('shows the home folder, folders first, with hostile names escaped', async () => {
    const names = (await entries()).filter((name) => !name.startsWith('.') && name !== 'answer');
    expect(names).toEqual([
      ...[
        'folder',
        '<img src=x onerror=alert(1)>',
        'gpj.\\u{202e}exe\\u{a}name',
        'hostile.txt',
        'notes.txt',
        'page.html',
        'picture.bin',
      ],
      ...['picture.svg', 'random.bin', 'stray-\\xff'],
    ]);
    for (const [name, content] of [
      ['gpj.\\u{202e}exe\\u{a}name', 'turned'],
      ['stray-\\xff', 'stray'],
      ['<img src=x onerror=alert(1)>', 'harmless'],
    ]) {
      await choose(name!);
      await until(async () => (await text()) === content);
    }
    await choose('folder');
    await has('below');
    const expanded = (name: string) =>
      tab.evaluate<string>(
        `[...document.querySelectorAll('.folder')].find((each) => each.textContent === '${name}').getAttribute('aria-expanded')`,
      );
    expect([await expanded('folder'), await expanded('below')]).toEqual(['true', 'false']);
    await choose('below');
    await has('deep.txt');
    await shot('files');
    await choose('folder');
    await until(async () => (await expanded('folder')) === 'false');
    expect(await entries()).not.toContain('deep.txt');
  });

  test('edits a text, keeps its line ends, and asks before it overwrites a changed file', async () => {
    await choose('notes.txt');
    await until(async () => (await text()) === 'first\nsecond\n');
    await focusEditor();
    await tab.type('typed ');
    await shot('files-editor');
    await tab.press('s', { modifiers: 2 });
    await until(async () => (await status()).startsWith('Saved'));
    const saved = fs.readFileSync(file('notes.txt'), 'utf8');
    expect([saved.includes('typed '), saved.replace('typed ', '')]).toEqual([true, 'first\r\nsecond\r\n']);
    fs.writeFileSync(file('notes.txt'), 'of another program');
    await tab.type('again ');
    await press('Save');
    await until(() => tab.asked.some((question) => question.includes('has changed')));
    expect(fs.readFileSync(file('notes.txt'), 'utf8')).toBe('of another program');
    tab.answers.push('');
    await press('Save');
    await until(() => fs.readFileSync(file('notes.txt'), 'utf8').includes('again '));
    // The page has noticed that it is saved.
    await until(() =>
      tab.evaluate<boolean>(
        `[...document.querySelectorAll('button')].find((each) => each.textContent === 'Save').disabled`,
      ),
    );
  });

  test('shows line numbers and invisible characters, and finds text', async () => {
    await choose('hostile.txt');
    await until(async () => (await text())?.startsWith('<b>') ?? false);
    const inEditor = <T>(expression: string) => tab.evaluate<T>(`${editor}.${expression}`);
    expect(await inEditor(`querySelector('.cm-lineNumbers').innerText`)).toMatch(/1\s+2\s+3/);
    expect(await inEditor(`querySelectorAll('b, img:not(.cm-widgetBuffer)').length`)).toBe(0);
    // U+202E, U+200B, U+0007 are dots with their names.
    expect(await inEditor(`querySelectorAll('.cm-specialChar').length`)).toBe(3);
    await press('Find');
    await until(() => inEditor<boolean>(`activeElement?.name === 'search'`));
    await tab.type('needl');
    await tab.press('e', { text: 'e' });
    await until(() => inEditor<boolean>(`querySelector('.cm-searchMatch') !== null`));
    expect(await inEditor(`querySelector('.cm-searchMatch').textContent`)).toBe('needle');
    await shot('files-find');
    expect(await tab.accessibilityViolations()).toEqual([]);
  });

  test('a long text is shown, edited and saved as a whole', async () => {
    const long = `${'a line of the file\n'.repeat(60_000)}end`;
    fs.writeFileSync(file('long.txt'), long);
    await press('Refresh');
    await choose('long.txt');
    await until(async () => (await text())?.startsWith('a line') ?? false);
    await focusEditor();
    await tab.type('new ');
    await tab.press('s', { modifiers: 2 });
    // Before the page has noticed that the file is saved, it would ask whether to leave it.
    await until(async () => (await status()).startsWith('Saved'));
    expect(fs.readFileSync(file('long.txt'), 'utf8') === `new ${long}`).toBe(true);
  });

  test('HTML and SVG are text, and nothing in them runs', async () => {
    await choose('page.html');
    await until(async () => (await text())?.startsWith('<script>') ?? false);
    await shot('files-html');
    await choose('picture.svg');
    await until(async () => (await text())?.startsWith('<svg') ?? false);
    await choose('random.bin');
    await until(async () => (await text()) === null);
    expect(await tab.evaluate('document.title')).toBe('Files');
  });

  test('shows a picture by its content, not by its name', async () => {
    await choose('picture.bin');
    const size = () => tab.evaluate<number>(`document.querySelector('.content img')?.naturalWidth ?? 0`);
    await until(async () => (await size()) === 4);
    expect(await tab.evaluate(`document.querySelector('.content img').src.startsWith('blob:')`)).toBe(true);
    await shot('files-picture');
  });

  test('in a narrow window, the folders and the file take turns in one column', async () => {
    await tab.resize(390, 844);
    try {
      const width = (selector: string) =>
        tab.evaluate<number>(`document.querySelector('${selector}').getBoundingClientRect().width`);
      await press('‹ Back');
      expect([await width('nav'), await width('.content')]).toEqual([390, 0]);
      await shot('files-phone-folders');
      await choose('hostile.txt');
      await until(async () => (await text())?.startsWith('<b>') ?? false);
      expect([await width('nav'), await width('.content')]).toEqual([0, 390]);
      await shot('files-phone');
      expect(await tab.evaluate('document.documentElement.scrollWidth')).toBe(390);
      await press('‹ Back');
      expect([await width('nav'), await width('.content')]).toEqual([390, 0]);
      expect(await tab.accessibilityViolations()).toEqual([]);
    } finally {
      await tab.resize(1000, 640);
    }
  });

  test('uploads dropped files, and downloads them again', async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-drop-'));
    try {
      const bytes = Buffer.alloc(3_000_000, 'dropped');
      fs.writeFileSync(path.join(folder, 'dropped ä.bin'), bytes);
      await tab.drop([path.join(folder, 'dropped ä.bin')]);
      await has('dropped ä.bin');
      await until(() => fs.readFileSync(file('dropped ä.bin')).equals(bytes));
      fs.rmSync(path.join(folder, 'dropped ä.bin'));
      await tab.downloadTo(folder);
      await choose('dropped ä.bin');
      await press('Download');
      const there = path.join(folder, 'dropped ä.bin');
      await until(() => fs.existsSync(there) && fs.statSync(there).size === bytes.length);
      expect(fs.readFileSync(there).equals(bytes)).toBe(true);
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  });

  test('makes, renames and deletes', async () => {
    tab.answers.push('made.txt');
    await press('New file');
    await until(async () => (await text()) === '');
    await has('made.txt');
    tab.answers.push(file('renamed.txt'));
    await press('Rename');
    await has('renamed.txt');
    expect([fs.existsSync(file('made.txt')), fs.existsSync(file('renamed.txt'))]).toEqual([false, true]);
    await choose('renamed.txt');
    await until(async () => (await text()) === '');
    await press('Delete');
    await until(() => tab.asked.some((question) => question.startsWith('Delete ')));
    expect(fs.existsSync(file('renamed.txt'))).toBe(true);
    tab.answers.push('');
    await press('Delete');
    await until(() => !fs.existsSync(file('renamed.txt')));
  });
});

test.each(['light', 'dark'] as const)('the page of a sandbox is readable, %s and in every state', async (scheme) => {
  await tab.prefer(scheme);
  try {
    for (const status of ['running', 'paused']) {
      started.routes.set({ sandboxId: id as never, status });
      for (const width of [390, 1280]) {
        await tab.resize(width, 640);
        await tab.goTo(`${origin}/`);
        expect(await tab.evaluate('document.body.innerText')).toContain(`The sandbox is ${status}`);
        expect(await tab.evaluate('getComputedStyle(document.querySelector("main")).padding')).toBe(
          width === 390 ? '24px' : '32px',
        );
        expect(await tab.accessibilityViolations()).toEqual([]);
        await shot(`sandbox-${status}-${width}-${scheme}`);
      }
    }
  } finally {
    started.routes.set({ sandboxId: id as never, status: 'running' });
    await tab.prefer('light');
    await tab.resize(1000, 640);
  }
});

test('a page of a port of the sandbox has no access to the pages, even with the cookie in the browser', async () => {
  const script = `
    const tried = [];
    for (const [method, path] of [['GET', '/files/session'], ['POST', '/terminal/agent/Process/Start'], ['GET', '/files/agent/download/%2Fetc%2Fpasswd']]) {
      await fetch('${origin}' + path, { method, credentials: 'include', mode: 'no-cors' }).then((reply) => tried.push(reply.type), () => tried.push('failed'));
    }
    const frame = document.createElement('iframe');
    frame.src = '${origin}/terminal';
    document.body.append(frame);
    await new Promise((resolve) => { frame.onload = resolve; });
    let inside = 'closed';
    try { inside = frame.contentDocument?.body.innerHTML ?? 'closed'; } catch { /* another origin */ }
    document.title = JSON.stringify({ tried, inside });`;
  const cookies: (string | undefined)[] = [];
  const port = await startHttpUpstream((request, response) => {
    cookies.push(request.headers.cookie);
    response.setHeader('content-type', 'text/html');
    response.end(`<!doctype html><body><script type="module">${script}</script>`);
  });
  try {
    const ports = [{ port: 3000, servicePort: port.port, protocol: 'TCP' as const, isProtected: false }];
    started.routes.set({ sandboxId: id as never, ports });
    const { length } = started.log;
    await tab.goTo(`http://${formatHost(id, 3000)}:${started.port}/`);
    const outcome = async () => JSON.parse((await tab.evaluate<string>('document.title')) || 'null');
    await until(async () => (await outcome()) !== null);
    expect((await outcome()).inside).toBe('closed');
    expect(cookies.every((cookie) => cookie === undefined)).toBe(true);
    const tried = ['/files/session', '/terminal/agent/Process/Start', '/files/agent/download/%2Fetc%2Fpasswd'];
    const statuses = () => {
      const served = started.log.slice(length).map((line) => JSON.parse(line));
      return served.filter(({ path: asked }) => tried.includes(asked)).map((line) => line.status);
    };
    await until(() => statuses().length >= 3);
    expect(statuses()).toEqual([403, 403, 403]);
    tab.reported.splice(0);
  } finally {
    await port.stop();
  }
});
