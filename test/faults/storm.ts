import { setTimeout as delay } from 'node:timers/promises';
import { Event } from '../../db/core/event.entity.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { Random } from '../agent/support/random.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';

/** A command that was answered as done, with the times of sending and of the answer. */
interface Done {
  command: 'pause' | 'resume';
  sentMs: number;
  answeredMs: number;
}

export interface Storm {
  /** By command and status, or code. */
  replies: Record<string, number>;
  /** Replies that were false at their time, and other contradictions. */
  wrong: string[];
}

const commands = ['pause', 'resume', 'timeout', 'connect', 'status'] as const;
/** Refusals that are allowed, because another client was first or because many ask at once. */
const refusals = new Set([
  ...['sandbox_not_running', 'sandbox_not_paused', 'sandbox_busy', 'sandbox_ended', 'too_many_requests'],
  ...['timeout_already_passed', 'temporarily_unavailable'],
]);

/**
 * Many clients send random commands to one sandbox through several replicas. One of them terminates it before the end.
 * Then the replies are compared with the sandbox's events: each pause and resume that was answered as done happened
 * once while its caller waited.
 */
export async function raiseStorm(
  platform: FaultyPlatform,
  options: { sandboxId: SandboxId; urls: string[]; apiKey: string; clients: number; seconds: number; seed: number },
): Promise<Storm> {
  const { sandboxId, urls, apiKey, seconds } = options;
  const storm: Storm = { replies: {}, wrong: [] };
  const done: Done[] = [];
  const random = new Random(options.seed);
  const endMs = Date.now() + seconds * 1000;
  let endAskedMs = Number.POSITIVE_INFINITY;
  let endedMs = Number.POSITIVE_INFINITY;

  const client = async (index: number) => {
    const api = new PlatformClient(urls[index % urls.length]!, apiKey);
    while (Date.now() < endMs) {
      const command = random.pick(commands);
      const sentMs = Date.now();
      const { status, body } =
        command === 'status'
          ? await api.request<{ status: string }>('GET', `/v1/sandboxes/${sandboxId}/status`)
          : await api.request<{ status: string }>(
              'POST',
              `/v1/sandboxes/${sandboxId}/${command}`,
              command === 'timeout' ? { timeout: 600 + random.below(600) } : {},
            );
      const answeredMs = Date.now();
      const answered = `${command} ${status < 300 ? 'done' : body.code}`;
      storm.replies[answered] = (storm.replies[answered] ?? 0) + 1;
      // A command that the end overtakes is answered with the state after it.
      if (status < 300 && (command === 'pause' || command === 'resume') && answeredMs < endAskedMs) {
        done.push({ command, sentMs, answeredMs });
      }
      if (status < 300 && sentMs > endedMs && command !== 'status') {
        storm.wrong.push(`${command} was done after the end`);
      }
      if (status >= 300 && !refusals.has(String(body.code))) storm.wrong.push(`${answered} (${status}): ${body.error}`);
      await delay(random.below(100));
    }
  };
  const end = async () => {
    await delay(seconds * 850);
    endAskedMs = Date.now();
    const accepted = async () =>
      (await platform.api.request('POST', `/v1/sandboxes/${sandboxId}/terminate`)).status < 300;
    await until(accepted, 60_000);
    endedMs = Date.now();
  };
  await Promise.all([end(), ...Array.from({ length: options.clients }, (_, index) => client(index))]);
  await platform.api.untilStatus(sandboxId, 'terminated', 60_000);

  const events = await platform.orm.em.fork().find(Event, { objectId: sandboxId }, { orderBy: { sequence: 'asc' } });
  for (const [command, type] of [
    ['pause', 'sandbox.paused'],
    ['resume', 'sandbox.resumed'],
  ] as const) {
    const answered = done.filter((each) => each.command === command);
    const happened = events.filter((event) => event.type === type).map((event) => event.createdAt.getTime());
    for (const each of answered) {
      const at = happened.findIndex((ms) => ms >= each.sentMs - 5 && ms <= each.answeredMs + 5);
      if (at < 0) storm.wrong.push(`a ${command} was answered as done that did not happen while its caller waited`);
      else happened.splice(at, 1);
    }
  }
  return storm;
}
