import type { MessageInitShape } from '@bufbuild/protobuf';
import { EventTypeSchema, type WatchDirResponseSchema } from '../proto/gen/sandboxagent_pb.js';
import { textFrame } from '../rpc/frames.ts';

/** Writes the JSON frames of filesystem events without reflection, which would take most of an event's time. */
export function eventFrames(
  codec: 'json' | 'proto',
): (reply: MessageInitShape<typeof WatchDirResponseSchema>) => Buffer[] | undefined {
  return ({ event }) => {
    if (codec !== 'json' || event?.case !== 'filesystem') return undefined;
    const { name, type, entry } = event.value;
    // Few clients ask for entries.
    if (entry) return undefined;
    const typeName = EventTypeSchema.value[type!]!.name;
    return [textFrame(0, `{"filesystem":{"name":${JSON.stringify(name)},"type":"${typeName}"}}`)];
  };
}
