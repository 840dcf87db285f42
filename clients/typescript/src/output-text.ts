/** Output of a command as text: characters that are cut by the border of two pieces come whole. */
export class OutputText {
  readonly #maxLength: number;
  readonly #decoder = new TextDecoder();
  #pieces: string[] = [];
  #length = 0;
  isTruncated = false;

  /** @param maxLength in UTF-16 units; the beginning is dropped where there is more */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** Returns what is complete now. */
  add(bytes: Uint8Array): string {
    const text = this.#decoder.decode(bytes, { stream: true });
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
