import { visibleText } from '../../format/text.ts';

export type OutputName = 'stdout' | 'stderr';

/** Output of one kind without a break by the other. */
export interface OutputPart {
  id: number;
  from: OutputName;
  text: string;
}

const keptCharacters = 1024 * 1024;
/** A command that writes to both in turn makes many small parts. */
const keptParts = 4000;
const partCharacters = 8 * 1024;

/** The newest output of a command, at most about 1 MiB. A part that has grown is a new object. */
export class BoundedOutput {
  #parts: readonly OutputPart[] = [];
  #characters = 0;
  #nextId = 0;
  isCut = false;

  get parts(): readonly OutputPart[] {
    return this.#parts;
  }

  add(from: OutputName, text: string): void {
    if (text === '') return;
    const parts = [...this.#parts];
    const last = parts.at(-1);
    if (last?.from === from && last.text.length < partCharacters)
      parts.splice(-1, 1, { ...last, text: last.text + text });
    else parts.push({ id: this.#nextId++, from, text });
    this.#characters += text.length;
    while (this.#characters > keptCharacters || parts.length > keptParts) {
      this.#characters -= parts.shift()!.text.length;
      this.isCut = true;
    }
    this.#parts = parts;
  }
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
