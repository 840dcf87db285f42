import type { SandboxCommands } from '../../api/sandbox-commands.ts';
import type { Sandbox } from '../../db/entities/sandbox.ts';
import type { Orm } from '../../db/orm.ts';
import type { PlanCatalog } from '../../db/plans.ts';
import { SandboxLifeRepository } from '../../db/repositories/sandbox-life.ts';
import { addPort, removablePort, removePort } from '../../db/repositories/sandbox-ports.ts';
import { AppError } from '../../domain/errors.ts';
import type { Port } from '../../domain/ports.ts';
import type { TimeoutChange, TimeoutReply } from '../../workflows/sandbox/messages.ts';

/**
 * Moves the rows of sandboxes with the writes their workflow makes, at once and in this process: for tests of what the
 * API itself decides. Tests of lives, through Temporal, are in `sandbox-life.test.ts`.
 */
export class RowCommands implements SandboxCommands {
  readonly life: SandboxLifeRepository;
  readonly calls: string[] = [];
  /** Makes the next command fail. */
  failNext: Error | null = null;
  /** While set, `start` waits for it. */
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

  async run(sandboxId: string, at = new Date()): Promise<Sandbox> {
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
    if (change.mustRaise && change.timeoutSeconds <= sandbox.timeoutSeconds) {
      throw new AppError('timeout_not_raised', 'not raised');
    }
    const row = await this.life.setTimeout(sandbox.sandboxId, change.timeoutSeconds, null);
    const runs = row.timeoutFrom !== null && row.timeoutFrom !== undefined;
    return {
      timeoutSeconds: row.timeoutSeconds,
      timeoutAtMs: runs ? row.timeoutFrom!.getTime() + row.timeoutSeconds * 1000 : null,
      appliesTo: runs ? 'current_phase' : 'next_phase',
    };
  }

  async terminate(sandbox: Sandbox, { forget }: { forget: boolean }): Promise<{ alreadyTerminated: boolean }> {
    this.#note(`terminate ${forget ? 'and forget' : 'only'}`);
    const at = new Date();
    const alreadyTerminated = sandbox.status === 'terminated';
    if (!alreadyTerminated) {
      await this.life.beginTermination(sandbox.sandboxId, 'user_requested');
      await this.life.stop(sandbox.sandboxId, at);
      await this.life.endTermination(sandbox.sandboxId, forget ? 'deleted' : 'completed', at, true);
    }
    if (forget) await this.life.forget(sandbox.sandboxId, at);
    return { alreadyTerminated };
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
