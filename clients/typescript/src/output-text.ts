/** The default maximum length of one output, in UTF-16 units. */
export const defaultOutputLength = 8 * 1024 * 1024;

/** The output of a command as text. Characters that are split between two pieces are joined. */
export class OutputText {
  readonly #maxLength: number;
  readonly #decoder = new TextDecoder();
  #pieces: string[] = [];
  #length = 0;
  isTruncated = false;

  /** @param maxLength in UTF-16 units; if the output is longer, its beginning is dropped */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** Returns the text that is complete now. */
  add(bytes: Uint8Array): string {
    return this.addText(this.#decoder.decode(bytes, { stream: true }));
  }

  /** Keeps nothing of an empty piece, because an agent may send any number of them. */
  addText(text: string): string {
    if (text === '') return text;
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#length > 2 * this.#maxLength) this.#cut();
    return text;
  }

  toString(): string {
    const rest = this.#decoder.decode();
    this.#pieces.push(rest);
    this.#length += rest.length;
    this.#cut();
    return this.#pieces.join('');
  }

  #cut(): void {
    const text = this.#pieces.join('');
    if (text.length > this.#maxLength) this.isTruncated = true;
    this.#pieces = [text.slice(-this.#maxLength)];
    this.#length = this.#pieces[0]!.length;
  }
}
