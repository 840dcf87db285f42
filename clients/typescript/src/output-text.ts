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

  /** The text so far. */
  get text(): string {
    return this.#pieces.join('').slice(-this.#maxLength);
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

  /** Adds a replacement character if the output ends within a character. */
  finish(): void {
    this.addText(this.#decoder.decode());
    this.#cut();
  }

  #cut(): void {
    const text = this.#pieces.join('');
    if (text.length > this.#maxLength) this.isTruncated = true;
    this.#pieces = [text.slice(-this.#maxLength)];
    this.#length = this.#pieces[0]!.length;
  }
}
