import { createHmac, randomUUID } from 'node:crypto';
import { parseExactly } from '../exact-json.ts';

/** A message of the Jupyter protocol, version 5 (jupyter-client.readthedocs.io, "Messaging in Jupyter"). */
export interface JupyterMessage {
  type: string;
  /** The `msg_id` of the request that the message belongs to. */
  parentId: string | undefined;
  content: Record<string, unknown>;
}

const delimiter = Buffer.from('<IDS|MSG>');

/** Encodes and decodes the messages of one client session. */
export class MessageCodec {
  readonly #key: string;
  readonly #session = randomUUID();

  /** @param key the key of the connection file; empty: messages are not signed */
  constructor(key: string) {
    this.#key = key;
  }

  /** The frames of a request, and its `msg_id`. */
  pack(type: string, content: object, metadata: object = {}): { id: string; frames: Buffer[] } {
    const id = randomUUID();
    const header = {
      msg_id: id,
      session: this.#session,
      username: 'agent',
      date: new Date().toISOString(),
      msg_type: type,
      version: '5.3',
    };
    const parts = [header, {}, metadata, content].map((part) => Buffer.from(JSON.stringify(part)));
    return { id, frames: [delimiter, Buffer.from(this.#sign(parts)), ...parts] };
  }

  /**
   * The message in `frames`. Undefined for frames that are not a message of this connection. A part over the limit is
   * null.
   */
  unpack(frames: (Buffer | null)[]): JupyterMessage | undefined {
    const at = frames.findIndex((frame) => frame?.equals(delimiter));
    const [signature, header, parent, metadata, content] = frames.slice(at + 1);
    if (at < 0 || !signature || !header || !parent || !metadata || content === undefined) return undefined;
    if (content && signature.toString() !== this.#sign([header, parent, metadata, content])) return undefined;
    const { msg_type: type } = JSON.parse(header.toString());
    const { msg_id: parentId } = JSON.parse(parent.toString());
    return content
      ? { type, parentId, content: parseExactly(content.toString()) as JupyterMessage['content'] }
      : { type: `${type}_too_large`, parentId, content: {} };
  }

  #sign(parts: Buffer[]): string {
    if (this.#key === '') return '';
    const hmac = createHmac('sha256', this.#key);
    for (const part of parts) hmac.update(part);
    return hmac.digest('hex');
  }
}
