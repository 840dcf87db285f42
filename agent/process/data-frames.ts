import { release } from '../memory/released-bytes.ts';
import type { ProcessEventInit } from './attachment.ts';

const headBytes = 5;
/** Base64 is made in steps of this many bytes (a multiple of 3), so that the intermediate strings stay small. */
const stepBytes = 12 * 1024;
const jsonTail = Buffer.from('"}}}');
const jsonHeads = {
  stdout: Buffer.from('{"event":{"data":{"stdout":"'),
  stderr: Buffer.from('{"event":{"data":{"stderr":"'),
  pty: Buffer.from('{"event":{"data":{"pty":"'),
};
/** Tags of length-delimited fields: StartResponse.event, ProcessEvent.data, and the output's own. */
const eventTag = 0x0a;
const dataTag = 0x12;
const outputTags = { stdout: 0x0a, stderr: 0x12, pty: 0x1a };

/**
 * Writes the frames of `data` events without reflection, which would copy the bytes three times. These events carry
 * nearly all bytes of a process's stream. JSON goes into one buffer that each frame reuses. A binary frame is a head
 * followed by the output's own bytes.
 */
export function dataFrames(codec: 'json' | 'proto'): (reply: { event?: ProcessEventInit }) => Buffer[] | undefined {
  let scratch: Buffer = Buffer.alloc(0);
  return ({ event }) => {
    release(scratch);
    if (event?.event?.case !== 'data') return undefined;
    const output = event.event.value.output;
    if (!output?.case) return undefined;
    const bytes = output.value as Buffer;
    if (codec === 'proto') return [protoHead(outputTags[output.case], bytes.length), bytes];

    const head = jsonHeads[output.case];
    const length = head.length + Math.ceil(bytes.length / 3) * 4 + jsonTail.length;
    if (scratch.length < headBytes + length) scratch = Buffer.allocUnsafeSlow(headBytes + length);
    scratch[0] = 0;
    scratch.writeUInt32BE(length, 1);
    let at = headBytes + head.copy(scratch, headBytes);
    for (let from = 0; from < bytes.length; from += stepBytes) {
      at += scratch.write(bytes.toString('base64', from, Math.min(from + stepBytes, bytes.length)), at, 'latin1');
    }
    at += jsonTail.copy(scratch, at);
    return [scratch.subarray(0, at)];
  };
}

/** The frame's head, with the tags and lengths of the three nested fields. */
function protoHead(outputTag: number, length: number): Buffer {
  const output = [outputTag, ...varint(length)];
  const data = [dataTag, ...varint(output.length + length), ...output];
  const event = [eventTag, ...varint(data.length + length), ...data];
  const head = Buffer.alloc(headBytes + event.length);
  head.writeUInt32BE(event.length + length, 1);
  head.set(event, headBytes);
  return head;
}

function varint(value: number): number[] {
  const bytes = [];
  for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128);
  bytes.push(value);
  return bytes;
}
