/** Bounds on the structure of a JSON text from an untrusted sender. */
export interface JsonBounds {
  maxDepth: number;
  /** Members of objects and items of arrays, over all levels. */
  maxValues: number;
  maxKeys: number;
  /** Characters of one key as written in the body, including escapes. */
  maxKeyLength: number;
  /** Characters of one number, or of `true`, `false` and `null`. Parsing a number takes longer than parsing text. */
  maxLiteralLength: number;
}

/** Far above every body in the API, and small enough to validate within milliseconds. */
export const defaultJsonBounds: JsonBounds = {
  maxDepth: 32,
  maxValues: 2000,
  maxKeys: 1500,
  maxKeyLength: 1024,
  maxLiteralLength: 64,
};

const space = 0x20;
const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Finds the first bound that a text exceeds, in one pass and before parsing. An invalid JSON text may pass; the parser
 * refuses it.
 * @returns the problem of the text as the end of a sentence, or null
 */
export function exceededBound(text: string, bounds: JsonBounds): string | null {
  let depth = 0;
  let values = 1;
  let keys = 0;
  let lastStringLength = 0;
  /** Characters outside of strings since the last structural character, without white space. */
  let literalLength = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote: {
        const end = endOfString(text, at + 1);
        lastStringLength = end - at - 1;
        literalLength = 0;
        at = end;
        break;
      }
      case openBrace:
      case openBracket:
        if (++depth > bounds.maxDepth) return `is nested more than ${bounds.maxDepth} levels deep`;
        if (++values > bounds.maxValues) return `has more than ${bounds.maxValues} values`;
        literalLength = 0;
        break;
      case closeBrace:
      case closeBracket:
        depth--;
        literalLength = 0;
        break;
      case comma:
        if (++values > bounds.maxValues) return `has more than ${bounds.maxValues} values`;
        literalLength = 0;
        break;
      case colon:
        if (++keys > bounds.maxKeys) return `has more than ${bounds.maxKeys} keys`;
        if (lastStringLength > bounds.maxKeyLength) return `has a key of more than ${bounds.maxKeyLength} characters`;
        literalLength = 0;
        break;
      default:
        if (text.charCodeAt(at) > space && ++literalLength > bounds.maxLiteralLength) {
          return `has a number of more than ${bounds.maxLiteralLength} characters`;
        }
    }
  }
  return null;
}

/**
 * The index of the quote that ends a string, or the length of the text.
 * @param start the index after the opening quote
 */
function endOfString(text: string, start: number): number {
  const end = text.indexOf('"', start);
  if (end < 0) return text.length;
  if (text.charCodeAt(end - 1) !== backslash) return end;
  // The loop reads each character, because searching for each quote takes six times as long in a text of escaped
  // quotes.
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === backslash) at++;
    else if (code === quote) return at;
  }
  return text.length;
}
