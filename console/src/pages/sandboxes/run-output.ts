import { visibleText } from '../../format/text.ts';

export type OutputName = 'stdout' | 'stderr';

/** Output of one kind without a break by the other. */
export interface OutputPart {
  id: number;
  from: OutputName;
  text: string;
}

/** More makes each new piece of output slow to lay out. */
const keptCharacters = 1024 * 1024;
const keptLines = 10_000;
/** A command that writes to both in turn makes many small parts. */
const keptParts = 4000;
const partCharacters = 2 * 1024;

const linesOf = (text: string) => text.split('\n').length - 1;

/** The newest output of a command, as much of it as a page can show well. A part that has grown is a new object. */
export class BoundedOutput {
  #parts: readonly OutputPart[] = [];
  #characters = 0;
  #lines = 0;
  #nextId = 0;
  isCut = false;

  get parts(): readonly OutputPart[] {
    return this.#parts;
  }

  add(from: OutputName, text: string): void {
    const parts = [...this.#parts];
    for (let at = 0; at < text.length; ) {
      const last = parts.at(-1);
      const room = last?.from === from ? partCharacters - last.text.length : 0;
      const piece = wholeCharacters(text, at, at + (room > 0 ? room : partCharacters));
      if (last && room > 0) parts.splice(-1, 1, { ...last, text: last.text + piece });
      else parts.push({ id: this.#nextId++, from, text: piece });
      at += piece.length;
    }
    this.#characters += text.length;
    this.#lines += linesOf(text);
    let surplus = 0;
    while (this.#characters > keptCharacters || this.#lines > keptLines || parts.length - surplus > keptParts) {
      const removed = parts[surplus++]!.text;
      this.#characters -= removed.length;
      this.#lines -= linesOf(removed);
      this.isCut = true;
    }
    this.#parts = parts.slice(surplus);
  }
}

/** The text between two places. Both halves of a character outside the basic plane stay together. */
function wholeCharacters(text: string, start: number, end: number): string {
  const isHalf = /[\ud800-\udbff]/.test(text[end - 1] ?? '');
  return text.slice(start, isHalf ? end + 1 : end);
}

/** Colours and movements of a terminal's cursor. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with the escape character
const sequence = /\u001b\[[\d;:?<=>]*[ -/]*[@-~]/g;
/** What the next piece may complete. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: see above
const openEnd = /(?:\r|\u001b(?:\[[\d;:?<=>]{0,64})?)$/;

/** Makes text that can be shown of the bytes of one output, whose characters may be cut anywhere. */
export class OutputText {
  readonly #decoder = new TextDecoder();
  #rest = '';

  add(base64: string): string {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    this.#rest = openEnd.exec(text)?.[0] ?? '';
    return shown(text.slice(0, text.length - this.#rest.length));
  }

  end(): string {
    return shown(this.#rest + this.#decoder.decode());
  }
}

const shown = (text: string) => visibleText(text.replace(sequence, '').replace(/\r\n?/g, '\n'));
