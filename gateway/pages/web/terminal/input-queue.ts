import { PageError } from '../shared/page-error.ts';
import type { Shell, TerminalSize } from './shell.ts';

/** The limit of waiting input for a program that does not read it. It is enough for a large paste. */
const maxWaitingCharacters = 4 * 1024 * 1024;
/** The maximum number of characters in one message. */
const messageCharacters = 64 * 1024;

/**
 * Sends keys and sizes in the order of their arrival, one message at a time. Input that arrives meanwhile is joined.
 */
export class InputQueue {
  readonly #shell: Shell;
  readonly #onState: (error: PageError | null) => void;
  #text = '';
  #size: TerminalSize | null = null;
  #isOpen = false;
  #isSending = false;
  #hasFailed = false;

  /** @param onState called with a failure, which loses the waiting input, and with null when input is accepted again */
  constructor(shell: Shell, onState: (error: PageError | null) => void) {
    this.#shell = shell;
    this.#onState = onState;
  }

  open(): void {
    this.#isOpen = true;
  }

  /** Drops waiting and later input, because its output is not shown any more. */
  close(): void {
    this.#isOpen = false;
    this.#text = '';
    this.#size = null;
  }

  type(text: string): void {
    if (!this.#isOpen) return;
    if (this.#text.length + text.length > maxWaitingCharacters) {
      this.#fail(new PageError('input_full', 'The program does not read.'));
      return;
    }
    this.#text += text;
    void this.#send();
  }

  resize(size: TerminalSize): void {
    if (!this.#isOpen) return;
    this.#size = size;
    void this.#send();
  }

  #fail(error: PageError): void {
    this.#hasFailed = true;
    this.#onState(error);
  }

  async #send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (this.#text !== '' || this.#size) {
        const size = this.#size;
        this.#size = null;
        if (size) await this.#shell.resize(size);
        const text = this.#text.slice(0, endOfMessage(this.#text));
        this.#text = this.#text.slice(text.length);
        if (text !== '') await this.#shell.type(text);
        if (this.#hasFailed && this.#isOpen) this.#onState(null);
        this.#hasFailed = false;
      }
    } catch (error) {
      this.#text = '';
      if (!(error instanceof PageError)) throw error;
      // The shell has just ended, and its stream reports that.
      if (this.#isOpen && error.code !== 'not_found') this.#fail(error);
    } finally {
      this.#isSending = false;
    }
  }
}

/** The end of the message, which does not split a surrogate pair. */
function endOfMessage(text: string): number {
  if (text.length <= messageCharacters) return text.length;
  const last = text.charCodeAt(messageCharacters - 1);
  return last >= 0xd800 && last <= 0xdbff ? messageCharacters - 1 : messageCharacters;
}
