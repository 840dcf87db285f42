/**
 * Splits the data of `kernels/node_kernel.mjs` into its frames: a type byte, the length (32 bits, little-endian), the
 * payload.
 */
export class FrameReader {
  #chunks: Buffer[] = [];
  #length = 0;
  #needed = 5;

  *push(chunk: Buffer): Generator<{ type: number; payload: Buffer }> {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    while (this.#length >= this.#needed) {
      let joined = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks, this.#length);
      while (joined.length >= 5 && joined.length >= 5 + joined.readUInt32LE(1)) {
        const end = 5 + joined.readUInt32LE(1);
        yield { type: joined[0]!, payload: joined.subarray(5, end) };
        joined = joined.subarray(end);
      }
      this.#chunks = joined.length > 0 ? [joined] : [];
      this.#length = joined.length;
      this.#needed = joined.length >= 5 ? 5 + joined.readUInt32LE(1) : 5;
    }
  }
}
