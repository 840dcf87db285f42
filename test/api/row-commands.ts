import { isAlreadyTerminated, type SandboxCommands } from '../../api/routes/sandboxes/commands.ts';
import type { PlanCatalog } from '../../db/billing/plans.ts';
import type { Orm } from '../../db/orm.ts';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { SandboxLifeRepository } from '../../db/sandboxes/sandbox-life.ts';
import { addPort, removablePort, removePort } from '../../db/sandboxes/sandbox-ports.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { Port } from '../../domain/sandboxes/ports.ts';
import { toLifecycleOutcome } from '../../domain/sandboxes/state.ts';
import {
  type PhaseTimeout,
  requirePossibleTimeout,
  type TimeoutChange,
  type TimeoutReply,
  timeoutReply,
} from '../../domain/sandboxes/timeout-change.ts';

type Terminated = Awaited<ReturnType<SandboxCommands['terminate']>>;

/**
 * Applies the writes of a sandbox's workflow to its row immediately, in this process, for tests of the API's own
 * decisions. All rules are those of the product. `sandboxes/life.test.ts` has the tests through Temporal.
 */
export class RowCommands implements SandboxCommands {
  readonly life: SandboxLifeRepository;
  readonly calls: string[] = [];
  /** Makes the next command fail. */
  failNext: Error | null = null;
  /** `start` waits for this promise while it is set. */
  hold: Promise<void> | null = null;

  readonly #orm: Orm;

  constructor(orm: Orm, plans: PlanCatalog) {
    this.#orm = orm;
    this.life = new SandboxLifeRepository(orm.em, plans);
  }

  async start({ sandboxId }: Sandbox, { wait }: { wait: boolean }): Promise<void> {
    this.#note(`start ${wait ? 'and wait' : 'only'}`);
    await this.hold;
    await this.life.begin(sandboxId, 1);
    if (wait) await this.run(sandboxId);
  }

  async run(sandboxId: SandboxId, at = new Date()): Promise<Sandbox> {
    return this.life.run(sandboxId, { address: '10.88.0.7', agentPort: 49_983 }, at);
  }

  async pause(sandbox: Sandbox, { wait }: { wait: boolean }): Promise<void> {
    this.#note(`pause ${wait ? 'and wait' : 'only'}`);
    const at = new Date();
    await this.life.beginPause(sandbox.sandboxId, 'user_requested', at);
    if (wait) await this.life.pause(sandbox.sandboxId, 'user_requested', at, true);
  }

  async resume(sandbox: Sandbox, { wait }: { wait: boolean }): Promise<void> {
    this.#note(`resume ${wait ? 'and wait' : 'only'}`);
    await this.life.beginResume(sandbox.sandboxId, 2);
    if (wait) await this.run(sandbox.sandboxId);
  }

  async restart(sandbox: Sandbox): Promise<void> {
    this.#note('restart');
    await this.life.beginRestart(sandbox.sandboxId, 2, new Date());
    await this.run(sandbox.sandboxId);
  }

  async connect(sandbox: Sandbox, { timeoutSeconds }: { timeoutSeconds: number | null }): Promise<void> {
    this.#note(`connect ${timeoutSeconds}`);
    if (sandbox.status === 'paused') {
      await this.life.beginResume(sandbox.sandboxId, 2);
      await this.run(sandbox.sandboxId);
    }
    if (timeoutSeconds !== null) await this.life.setTimeout(sandbox.sandboxId, timeoutSeconds, new Date());
  }

  async addPort(sandbox: Sandbox, port: Port): Promise<void> {
    this.#note(`add port ${port.port}`);
    await addPort(this.#orm.em, sandbox.sandboxId, port);
  }

  async removePort(sandbox: Sandbox, port: number): Promise<void> {
    this.#note(`remove port ${port}`);
    await removablePort(this.#orm.em, sandbox.sandboxId, port);
    await removePort(this.#orm.em, sandbox.sandboxId, port);
  }

  async setTimeout(sandbox: Sandbox, change: TimeoutChange): Promise<TimeoutReply> {
    this.#note(`timeout ${change.timeoutSeconds}`);
    requirePossibleTimeout(phaseTimeout(sandbox), change, Date.now());
    return timeoutReply(phaseTimeout(await this.life.setTimeout(sandbox.sandboxId, change.timeoutSeconds, null)));
  }

  async terminate({ sandboxId, status }: Sandbox, { forget }: { forget: boolean }): Promise<Terminated> {
    this.#note(`terminate ${forget ? 'and forget' : 'only'}`);
    const at = new Date();
    if (status !== 'terminated') {
      await this.life.beginTermination(sandboxId, 'user_requested');
      await this.life.stop(sandboxId, at);
      await this.life.endTermination(sandboxId, toLifecycleOutcome('user_requested', forget), at, true);
    }
    if (forget) await this.life.forget(sandboxId, at);
    return { alreadyTerminated: isAlreadyTerminated(status, forget) };
  }

  async endBatch(sandboxes: readonly Sandbox[], { forget }: { forget: boolean }): Promise<void> {
    for (const sandbox of sandboxes) await this.terminate(sandbox, { forget });
  }

  #note(call: string): void {
    this.calls.push(call);
    const failure = this.failNext;
    this.failNext = null;
    if (failure) throw failure;
  }
}

const phaseTimeout = ({ timeoutSeconds, timeoutFrom }: Sandbox): PhaseTimeout => ({
  timeoutSeconds,
  fromMs: timeoutFrom?.getTime() ?? null,
});
