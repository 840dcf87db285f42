/** Editable text, and the facts that are needed to write it back unchanged. */
export interface TextContent {
  text: string;
  /** Null: the line ends are mixed, and an editor would unify them. */
  lineEnd: '\n' | '\r\n' | null;
}

/** Null: the bytes are not UTF-8 text. */
export function decodeText(bytes: Uint8Array): TextContent | null {
  let text: string;
  try {
    // `ignoreBOM: true` keeps a byte order mark in the text.
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
  if (text.includes('\0')) return null;
  const crlf = text.match(/\r\n/g)?.length ?? 0;
  const others = text.match(/\r(?!\n)|(?<!\r)\n/g)?.length ?? 0;
  if (crlf === 0 && !text.includes('\r')) return { text, lineEnd: '\n' };
  return { text, lineEnd: others === 0 ? '\r\n' : null };
}

const signatures: readonly { type: string; bytes: readonly (number | null)[] }[] = [
  { type: 'image/png', bytes: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] },
  { type: 'image/jpeg', bytes: [0xff, 0xd8, 0xff] },
  { type: 'image/gif', bytes: [0x47, 0x49, 0x46, 0x38] },
  { type: 'image/webp', bytes: [0x52, 0x49, 0x46, 0x46, null, null, null, null, 0x57, 0x45, 0x42, 0x50] },
];

/**
 * The type of an image by its first bytes, never by its name. Only raster images: SVG is a document and is shown as
 * text. Null: the bytes are no such image.
 */
export function detectImageType(bytes: Uint8Array): string | null {
  const found = signatures.find(({ bytes: wanted }) => wanted.every((byte, at) => byte === null || bytes[at] === byte));
  return found?.type ?? null;
}
