import type { Writable } from 'node:stream';

/**
 * Writes a piece again and again, as fast as the reader allows, until the stream is closed.
 * @param onRoom called after each piece that left room for another
 */
export function flood(stream: Writable, piece: Buffer, onRoom: () => void = () => undefined): void {
  const more = () => {
    while (!stream.destroyed && stream.write(piece)) onRoom();
  };
  stream.on('drain', more);
  more();
}
