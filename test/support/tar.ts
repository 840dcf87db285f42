import { type Header, pack } from 'tar-stream';

/** An entry of a tar. */
export type TarEntry = Partial<Omit<Header, 'pax' | 'type'>> & {
  name: string;
  type?: Header['type'];
  pax?: Record<string, string>;
  content?: Uint8Array | string;
};

/** The bytes of a tar with these entries. */
export async function tarOf(...entries: TarEntry[]): Promise<Buffer> {
  const tar = pack();
  const pieces: Buffer[] = [];
  tar.on('data', (piece) => pieces.push(piece as Buffer));
  const ended = new Promise<void>((resolve) => void tar.once('end', () => resolve()));
  for (const { content = '', ...header } of entries) tar.entry(header, content);
  tar.finalize();
  await ended;
  return Buffer.concat(pieces);
}

/** Makes the checksum of the header at an offset right. */
export function setChecksum(tar: Buffer, at: number): void {
  const header = tar.subarray(at, at + 512);
  header.fill(' ', 148, 156);
  const sum = header.reduce((all, byte) => all + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
}
