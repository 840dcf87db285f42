/** Characters that a terminal obeys or hides: controls, changes of direction, separators. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** A text from a sandbox for a person, on one line: characters that are not printable become `\u001b`. */
export function printableLine(text: string): string {
  return text.replace(unprintable, escapeAll);
}

/** As `printableLine`, but keeps line breaks and tabs. JSON stays the same JSON. */
export function printable(text: string): string {
  return text.replace(unprintable, (found) => (found === '\n' || found === '\t' ? found : escapeAll(found)));
}

/** The output of a program for a terminal. It may set colours, but has no other control of the terminal. */
export function printableOutput(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a sequence of colours begins with it
  return text.replace(/\x1b\[[\d;]*m|(?![\n\r\t])\p{Cc}/gu, (found) => (found.length > 1 ? found : escapeAll(found)));
}

function escapeAll(found: string): string {
  return found
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}
