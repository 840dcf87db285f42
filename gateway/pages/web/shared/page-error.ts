/**
 * A failure that the page shows. `code` is a code of the gateway, of the agent, or of the page itself: `disconnected`
 * (the connection broke off), `bad_reply` (the reply is not one of an agent), `no_token`.
 */
export class PageError extends Error {
  override name = 'PageError';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Texts of the sandbox are truncated to this length. */
const maxTextLength = 300;

/**
 * A text of the sandbox for one line of the page. Control characters, invisible characters and those that change the
 * text direction are shown by their number, and stray bytes of file names as `\xNN`.
 */
export function visibleText(text: string, maxLength = maxTextLength): string {
  const cut = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
  return cut.replace(/[\uf780-\uf7ff]|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) => {
    const code = character.codePointAt(0)!;
    if (code >= 0xf780 && code <= 0xf7ff) return `\\x${(code - 0xf700).toString(16)}`;
    // These characters join the parts of emoji and of some scripts.
    if (code === 0x200d || code === 0x200c) return character;
    return `\\u{${code.toString(16)}}`;
  });
}
