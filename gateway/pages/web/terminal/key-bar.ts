import type { Terminal } from '@xterm/xterm';
import { button, element } from '../shared/elements.ts';

/** The final letters of the sequences of the arrow keys. */
const arrows = { '←': 'D', '↑': 'A', '↓': 'B', '→': 'C' } as const;
const arrowNames = { '←': 'Left', '↑': 'Up', '↓': 'Down', '→': 'Right' } as const;
const symbols = ['|', '/', '-', '~', '_', '*', '$', '&'];

/** Keys that the keyboard of a phone lacks. The style sheet shows them where the pointer is a finger. */
export class KeyBar {
  readonly element: HTMLElement;
  readonly #terminal: Terminal;
  readonly #control: HTMLButtonElement;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#control = button('Ctrl', () => this.#holdControl(!this.#isControlHeld));
    this.#control.ariaPressed = 'false';
    const texts = [button('Esc', () => this.#send('\x1b')), button('Tab', () => this.#send('\t'))];
    const arrowKeys = (Object.keys(arrows) as (keyof typeof arrows)[]).map((label) => {
      const key = button(label, () => this.#send(this.#arrow(arrows[label])));
      key.ariaLabel = arrowNames[label];
      return key;
    });
    const symbolKeys = symbols.map((symbol) => button(symbol, () => terminal.input(symbol)));
    this.element = element('footer', { className: 'keys' }, ...texts, this.#control, ...arrowKeys, ...symbolKeys);
    this.element.ariaLabel = 'Keys';
    // The terminal keeps the focus, so the keyboard of the phone stays open.
    this.element.addEventListener('pointerdown', (event) => event.preventDefault());
  }

  /** The typed text, as a control character if Ctrl was pressed before it. */
  typed(text: string): string {
    if (!this.#isControlHeld || text.length !== 1) return text;
    this.#holdControl(false);
    if (text === ' ') return '\0';
    const code = text.toUpperCase().charCodeAt(0);
    return code >= 0x40 && code <= 0x5f ? String.fromCharCode(code - 0x40) : text;
  }

  get #isControlHeld(): boolean {
    return this.#control.ariaPressed === 'true';
  }

  #holdControl(isHeld: boolean): void {
    this.#control.ariaPressed = String(isHeld);
  }

  #send(text: string): void {
    this.#holdControl(false);
    this.#terminal.input(text);
  }

  #arrow(letter: string): string {
    if (this.#isControlHeld) return `\x1b[1;5${letter}`;
    return `\x1b${this.#terminal.modes.applicationCursorKeysMode ? 'O' : '['}${letter}`;
  }
}
