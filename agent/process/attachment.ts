import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ProcessEventSchema } from '../proto/gen/sandboxagent_pb.js';
import { Wakeup } from '../rpc/wakeup.ts';
import type { Channel } from './backlog.ts';

export type ProcessEventInit = MessageInitShape<typeof ProcessEventSchema>;

/** A piece of output for clients. Each client calls `release` once. */
export interface Piece {
  channel: Channel;
  bytes: Buffer;
  release(): void;
}

/** One client's view of a process: the output that it has not taken yet, in order. */
export class Attachment {
  #pieces: Piece[] = [];
  #end: ProcessEventInit | undefined;
  #isOver = false;
  #current: Piece | undefined;
  readonly #something = new Wakeup();
  #closed = false;
  readonly #onClose: (untaken: Piece[]) => void;

  constructor(onClose: (untaken: Piece[]) => void) {
    this.#onClose = onClose;
  }

  push(piece: Piece): void {
    this.#pieces.push(piece);
    this.#something.wake();
  }

  finish(end: ProcessEventInit): void {
    this.#end = end;
    this.#something.wake();
  }

  /** Ends the view. Output that was not taken goes back to the process. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    const untaken = this.#pieces;
    this.#pieces = [];
    this.#something.wake();
    this.#something.close();
    this.#onClose(untaken);
    this.#current?.release();
    this.#current = undefined;
  }

  /**
   * The next event; undefined while there is none, null after the last. The bytes of an event are valid until the next
   * call.
   */
  next(): ProcessEventInit | undefined | null {
    this.#current?.release();
    this.#current = this.#pieces.shift();
    if (this.#current) {
      const { channel, bytes } = this.#current;
      return { event: { case: 'data', value: { output: { case: channel, value: bytes } } } };
    }
    if (this.#isOver || this.#closed) return null;
    this.#isOver = this.#end !== undefined;
    return this.#end;
  }

  /** Waits until `next` has something to tell. False after that much silence, which is the same in each call. */
  within(silenceMs: number): Promise<boolean> {
    return this.#something.within(silenceMs);
  }
}
