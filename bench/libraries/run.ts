import { printTable, type Row } from '../table.ts';
import { withConnectRivals } from './connect-server.ts';
import { compareInTurns, type Rivals } from './in-turns.ts';
import { multipartRivals } from './multipart.ts';
import { terminalRivals } from './terminal.ts';
import { withUpstreamRivals } from './upstream.ts';

/** Compares the project's own code with libraries that do the same. Own code stays only while it is faster or safer. */
const rows: Row[] = [];

async function compare(rivals: readonly Rivals[]): Promise<void> {
  for (const each of rivals) rows.push(await compareInTurns(each));
}

await compare(multipartRivals);
await withUpstreamRivals(compare);
await withConnectRivals(compare);
await compare(terminalRivals());
printTable('Own code beside busboy, undici, connect-node and node-pty', rows);
