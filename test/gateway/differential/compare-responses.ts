import { MalformedResponse, type ResponseHead, ResponseParser } from '../../../gateway/upstream/response-parser.ts';
import { Llhttp, type ReadMessage } from './llhttp.ts';

/** How the gateway's parser read some bytes. */
interface Reading {
  heads: ResponseHead[];
  body: string;
  trailers: string[];
  isComplete: boolean;
  /** The number of bytes after which the response was complete. */
  endedAt: number | null;
  refusal: string | null;
  tunnel: boolean;
}

/** Connection-level fields, which the gateway's parser removes, and the length, which it reports separately. */
const takenOut = new Set(
  'connection content-length http2-settings keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
);

/**
 * Has both parsers read a response and compares them. What the gateway's parser accepts, llhttp must accept with the
 * same status, fields, body, trailers and end. The gateway's parser may refuse more, but its result must not depend on
 * the splits.
 * @returns the findings; why the gateway's parser refuses it; and that reason again if llhttp accepts it (`stricter`)
 */
export function compareResponse(
  text: string,
  method: string,
  cuts: readonly number[],
): { findings: string[]; stricter: string | null; refusal: string | null } {
  const bytes = Buffer.from(text, 'latin1');
  const everyByte = Array.from({ length: bytes.length }, (_, at) => at + 1);
  const ours = read(bytes, everyByte, method);
  const theirs = readByLlhttp(bytes, method);
  const findings: string[] = [];
  for (const cut of cuts) {
    const other = read(bytes, [cut, bytes.length], method);
    if (formatMeaning(other) !== formatMeaning(ours))
      findings.push(`split at ${cut}: ${formatMeaning(other)} is not ${formatMeaning(ours)}`);
  }
  const { informational, final } = theirs;
  const expected = [...informational, ...(final ? [final] : [])];
  for (const [at, head] of ours.heads.entries()) {
    const message = expected[at];
    if (!message) findings.push(`llhttp refuses head ${at} (${theirs.refusal})`);
    else if (formatHead(message) !== formatOwnHead(head))
      findings.push(`head ${at}: ${formatOwnHead(head)}, llhttp: ${formatHead(message)}`);
  }
  // Both read the following bytes as another protocol; llhttp only if the response names one.
  if (ours.tunnel) return { findings, stricter: null, refusal: null };
  if (!(final?.body ?? '').startsWith(ours.body)) findings.push(`body ${ours.body}, llhttp: ${final?.body}`);
  if (ours.isComplete) {
    if (!final?.isComplete) findings.push(`llhttp does not take it for complete (${theirs.refusal})`);
    else {
      if (final.body !== ours.body) findings.push(`body ${ours.body}, llhttp: ${final.body}`);
      if (JSON.stringify(final.trailers) !== JSON.stringify(ours.trailers))
        findings.push(`trailers ${ours.trailers}, llhttp: ${final.trailers}`);
      if (theirs.endedAt !== ours.endedAt) findings.push(`ends at ${ours.endedAt}, llhttp: ${theirs.endedAt}`);
    }
  }
  const isStricter = ours.refusal !== null && !ours.isComplete && theirs.refusal === null;
  return { findings, stricter: isStricter ? ours.refusal : null, refusal: ours.refusal };
}

function read(bytes: Buffer, cuts: readonly number[], method: string): Reading {
  const reading: Reading = {
    heads: [],
    body: '',
    trailers: [],
    isComplete: false,
    endedAt: null,
    refusal: null,
    tunnel: false,
  };
  const parser = new ResponseParser();
  let fed = 0;
  parser.begin(method, {
    onInformational: (head) => reading.heads.push(head),
    onHead: (head) => reading.heads.push(head),
    onBody: (piece, last, trailers) => {
      reading.body += piece.toString('latin1');
      reading.trailers.push(...trailers);
      if (last) reading.endedAt = fed;
    },
    onTunnelBytes: () => undefined,
  });
  try {
    // A copy, because the parser joins chunks within the buffer that it reads.
    const own = Buffer.from(bytes);
    for (const cut of cuts) {
      const from = fed;
      fed = cut;
      parser.feed(own.subarray(from, cut));
    }
    parser.end();
  } catch (error) {
    if (!(error instanceof MalformedResponse)) throw error;
    reading.refusal = error.message;
  }
  reading.tunnel = reading.heads.at(-1)?.status === 101;
  reading.isComplete = reading.endedAt !== null;
  return reading;
}

function readByLlhttp(bytes: Buffer, method: string) {
  const parser = new Llhttp(method);
  let endedAt: number | null = null;
  const findFinal = () => parser.messages.find(({ status }) => status >= 200 || status === 101);
  for (let at = 0; at < bytes.length; at += 1) {
    parser.feed(bytes.subarray(at, at + 1));
    if (findFinal()?.isComplete) endedAt ??= at + 1;
  }
  parser.end();
  if (findFinal()?.isComplete) endedAt ??= bytes.length;
  const final = findFinal();
  const informational = parser.messages.slice(0, final ? parser.messages.indexOf(final) : undefined);
  return { informational, final, refusal: parser.refusal, endedAt };
}

/** The parts that must not depend on the splits. */
function formatMeaning({ heads, body, trailers, isComplete, refusal, tunnel }: Reading): string {
  // How much of a body arrived before a refusal depends on the splits.
  return JSON.stringify(
    refusal === null ? { heads, body, trailers, isComplete, tunnel } : { refusal: true, isComplete },
  );
}

function formatOwnHead({ status, reason, headers }: ResponseHead): string {
  return JSON.stringify([status, reason, listFields(headers, new Set())]);
}

function formatHead({ status, reason, fields }: ReadMessage): string {
  const nominated = new Set<string>();
  for (let at = 0; at < fields.length; at += 2) {
    if (fields[at]!.toLowerCase() !== 'connection') continue;
    for (const token of fields[at + 1]!.toLowerCase().split(',')) nominated.add(token.replace(/^[ \t]+|[ \t]+$/g, ''));
  }
  return JSON.stringify([status, reason, listFields(fields, nominated)]);
}

function listFields(flat: readonly string[], nominated: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let at = 0; at < flat.length; at += 2) {
    const name = flat[at]!.toLowerCase();
    if (!takenOut.has(name) && !nominated.has(name)) kept.push(flat[at]!, flat[at + 1]!);
  }
  return kept;
}
