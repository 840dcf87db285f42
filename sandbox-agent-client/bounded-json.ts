/** Limits of a JSON text, checked before it is parsed. */
export interface JsonBounds {
  maxDepth: number;
  /** Values and keys together, at most. */
  maxNodes: number;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const opening = new Set([0x5b, 0x7b]);
const closing = new Set([0x5d, 0x7d]);

/**
 * Parses JSON of an untrusted sender. The check is one pass over the text, so a deep or crowded document costs no more
 * than its length.
 * @throws {SyntaxError} not JSON, too deep, or too many values
 */
export function parseBoundedJson(text: string, { maxDepth, maxNodes }: JsonBounds): unknown {
  let depth = 0;
  let nodes = 1;
  let inString = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === backslash) at += 1;
      else if (code === quote) inString = false;
    } else if (code === quote) inString = true;
    else if (opening.has(code)) {
      depth += 1;
      nodes += 1;
      if (depth > maxDepth) throw new SyntaxError(`JSON is deeper than ${maxDepth} levels`);
    } else if (closing.has(code)) depth -= 1;
    else if (code === comma || code === colon) nodes += 1;
    if (nodes > maxNodes) throw new SyntaxError(`JSON has more than ${maxNodes} values`);
  }
  return JSON.parse(text);
}
