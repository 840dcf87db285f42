import type { WorkflowClientInterceptor, WorkflowStartUpdateOutput } from '@temporalio/client';
import { type DataConverter, defaultPayloadConverter } from '@temporalio/common';
import { updateExpiryHeader, updateWaitMs } from '../../domain/update-expiry.ts';

/**
 * Sends the time with each update at which the client stops waiting for it to be accepted. Workflows refuse it
 * afterwards, so a server that hung does not carry out commands whose callers have been told that they failed.
 *
 * The time is by Temporal's clock, and a refusal says what that clock shows. If the client still waits, the clocks
 * differ: it corrects its time and sends the update once more.
 */
export function updateExpiry({ payloadCodecs = [] }: DataConverter): WorkflowClientInterceptor {
  /** Temporal's clock minus this machine's, as of the last refusal. */
  let aheadMs = 0;

  async function timeOfRefusal({ outcome }: WorkflowStartUpdateOutput): Promise<number | null> {
    let payloads = outcome?.failure?.applicationFailureInfo?.details?.payloads ?? [];
    for (const codec of payloadCodecs) payloads = await codec.decode(payloads);
    const [detail] = payloads.map((payload) =>
      defaultPayloadConverter.fromPayload<{ [name: string]: unknown } | null>(payload),
    );
    const time = detail?.[updateExpiryHeader];
    return typeof time === 'number' ? time : null;
  }

  return {
    async startUpdate(input, next) {
      const untilMs = performance.now() + updateWaitMs;
      const send = () => {
        const expiry = Math.round(Date.now() + aheadMs + untilMs - performance.now());
        const headers = { ...input.headers, [updateExpiryHeader]: defaultPayloadConverter.toPayload(expiry) };
        return next({ ...input, headers });
      };
      const output = await send();
      const temporalMs = await timeOfRefusal(output);
      if (temporalMs === null || performance.now() > untilMs) return output;
      aheadMs = temporalMs - Date.now();
      return send();
    },
  };
}
