import type { ConsoleTab } from '../support/console-browser.ts';

const markup = '<img src=x onerror=alert(1)>';
/** Turns the text after it around, unless it is shown as a sign. */
const turn = '\u202e';

/** A name of 64 characters that tries to run a script, and to be wider than the window. The API refuses others. */
export const hostileName = markup + 'W'.repeat(64 - markup.length);
/** A longer text, which also tries to turn what follows around, with control characters. */
export const hostileText = `${markup}${turn}\u0007\u001b[31m${'W'.repeat(300)}`;

/** What hostile texts have done to the page as it is now. Every test expects nothing. */
export function harmOn({ page }: ConsoleTab): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const harm = [...document.querySelectorAll('img[src=x]')].map(() => 'an element of a text');
    const shown = document.body.innerText + [...document.querySelectorAll('option')].map((each) => each.text).join();
    if (/[\\u202e\\u0007\\u001b]/.test(shown)) harm.push('a character that deceives');
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) harm.push('wider than the window by ' + (scrollWidth - clientWidth));
    for (const { scrollWidth, clientWidth } of document.querySelectorAll('dialog')) {
      if (scrollWidth > clientWidth) harm.push('wider than the dialog by ' + (scrollWidth - clientWidth));
    }
    return harm;
  })()`);
}
