import './page.css';
import { FitAddon } from '@xterm/addon-fit';
import { UnicodeGraphemesAddon } from '@xterm/addon-unicode-graphemes';
import { Terminal } from '@xterm/xterm';
import { button, element, topBar } from '../shared/elements.ts';
import { PageError } from '../shared/page-error.ts';
import { explain, isPassing, Session } from '../shared/session.ts';
import { bindClipboard } from './clipboard.ts';
import { InputQueue } from './input-queue.ts';
import { KeyBar } from './key-bar.ts';
import { Shell } from './shell.ts';

/** The number of kept lines above the screen. */
const scrollbackLines = 5000;

const terminal = new Terminal({
  // The widths of graphemes need this option.
  allowProposedApi: true,
  cursorBlink: true,
  fontFamily: 'ui-monospace, "DejaVu Sans Mono", "Noto Sans Mono", "Noto Color Emoji", monospace',
  fontSize: 14,
  // A smaller value would cut off the lower edge of letters.
  lineHeight: 1.15,
  scrollback: scrollbackLines,
  theme: { background: '#16181d', foreground: '#e4e6ea' },
  // Hyperlinks from the sandbox (OSC 8) can hide their targets, so they are not followed.
  linkHandler: { activate: () => undefined },
});
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.loadAddon(new UnicodeGraphemesAddon());

const shell = new Shell(terminal);
const end = button('End shell', () => {
  shell.end().catch((error: PageError) => say(explain(error), true));
  terminal.focus();
});
end.disabled = true;
const { bar, status } = topBar({ href: '/files', label: 'Files' }, end);
const place = element('main', { id: 'terminal' });
const keys = new KeyBar(terminal);
document.body.replaceChildren(bar, place, keys.element);
terminal.open(place);
bindClipboard(terminal, place);
fit.fit();
new ResizeObserver(() => fit.fit()).observe(place);
// Where the keyboard of a phone covers the page instead of resizing it, only this size shows it.
visualViewport?.addEventListener('resize', () => {
  document.body.style.height = `${visualViewport!.height}px`;
});

const input = new InputQueue(shell, (error) => {
  if (error) say(`${explain(error)} What was typed last is lost.`, true);
  else say('');
});
terminal.onData((text) => input.type(keys.typed(text)));
terminal.onResize((size) => input.resize(size));

function say(text: string, isBad = false): void {
  status.textContent = text;
  status.title = text;
  status.classList.toggle('bad', isBad);
  place.classList.toggle('off', isBad);
}

const longestWaitMs = 10_000;

/** Runs one shell after another, over any number of connections. */
async function run(): Promise<never> {
  const session = new Session('/terminal');
  let waitMs = 250;
  for (;;) {
    try {
      await session.open((error) => say(explain(error), true));
      await shell.follow(() => {
        waitMs = 250;
        input.open();
        end.disabled = false;
        say('');
        terminal.focus();
      });
      stop();
      say('The shell has ended. Press Enter for a new one.');
      await enterPressed();
    } catch (error) {
      stop();
      if (!(error instanceof PageError) || error.code === 'unauthenticated') throw error;
      if (isPassing(error)) {
        say(explain(error), true);
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        waitMs = Math.min(waitMs * 2, longestWaitMs);
      } else {
        say(`${explain(error)} Press Enter to try again.`, true);
        await enterPressed();
      }
    }
  }
}

function stop(): void {
  input.close();
  end.disabled = true;
}

function enterPressed(): Promise<void> {
  return new Promise((resolve) => {
    const waiting = terminal.onKey(({ domEvent }) => {
      if (domEvent.key !== 'Enter') return;
      waiting.dispose();
      resolve();
    });
  });
}

run().catch((error: unknown) => {
  say(error instanceof PageError ? explain(error) : `This page has failed: ${String(error)}`, true);
});
