import { activityInfo, Context, heartbeat } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { PlatformSecrets } from '../config/secrets.ts';
import type { Sandbox } from '../db/entities/sandbox.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import { SandboxLifeRepository } from '../db/repositories/sandbox-life.ts';
import { noLife } from '../domain/life-plan.ts';
import { parseCustomCommand, parseReadyCommand } from '../domain/template-commands.ts';
import { DriverError, type SandboxDriver, type SandboxSpec } from '../runtime/driver.ts';

/** Where a sandbox runs now. */
export interface HostedPlace {
  address: string;
  agentPort: number;
}

/**
 * What a host does for a sandbox. Served on the queue of the one host that has it. Their arguments are ids only; what
 * is secret is read or derived here, so it is in no workflow history.
 */
export function createSandboxHostActivities(deps: {
  orm: Orm;
  plans: PlanCatalog;
  driver: SandboxDriver;
  secrets: PlatformSecrets;
}) {
  const life = new SandboxLifeRepository(deps.orm.em, deps.plans);

  const specOf = async (sandboxId: string): Promise<SandboxSpec> => {
    const row = await life.find(sandboxId);
    if (!row) throw ApplicationFailure.nonRetryable(`There is no sandbox ${sandboxId}`, 'sandbox_absent');
    return toSpec(row, deps.secrets);
  };

  return {
    /** `created` → `starting`; makes it and answers when it is ready; tells each step of `starting` as it comes. */
    startSandbox(sandboxId: string): Promise<HostedPlace> {
      return onHost(async (signal) => {
        // The host says that it begins: one trip to the database, and the workflow's caller waits for nothing else.
        const row = await life.begin(sandboxId);
        if (!row) throw ApplicationFailure.nonRetryable(`There is no sandbox ${sandboxId} to start`, noLife);
        const place = await deps.driver.create(toSpec(row, deps.secrets), {
          signal,
          onPhase: (phase) => life.step(sandboxId, 'starting', phase),
        });
        return { address: place.address, agentPort: place.agentPort };
      });
    },

    /** Freezes it. */
    pauseSandbox(sandboxId: string): Promise<void> {
      return onHost(() => deps.driver.pause(sandboxId));
    },

    /** Thaws it, or starts it again on its disk. */
    resumeSandbox(sandboxId: string): Promise<HostedPlace> {
      return onHost(async (signal) => {
        const place = await deps.driver.resume(await specOf(sandboxId), { signal });
        return { address: place.address, agentPort: place.agentPort };
      });
    },

    /** Ends its processes; its disk stays. */
    stopSandbox(sandboxId: string): Promise<void> {
      return onHost(() => deps.driver.stop(sandboxId));
    },

    /** Removes all that is left of it. */
    removeSandbox(sandboxId: string): Promise<void> {
      return onHost(() => deps.driver.remove(sandboxId));
    },
  };
}

export type SandboxHostActivities = ReturnType<typeof createSandboxHostActivities>;

function toSpec(row: Sandbox, secrets: PlatformSecrets): SandboxSpec {
  return {
    sandboxId: row.sandboxId,
    image: row.image,
    cpuCount: row.cpuCount,
    memoryMb: row.memoryMb,
    storageGb: row.storageGb,
    allowInternetAccess: row.allowInternetAccess,
    env: row.envVars,
    accessToken: row.secure ? secrets.agentToken(row.sandboxId) : null,
    platformToken: secrets.platformToken(row.sandboxId),
    command: parseCustomCommand(row.templateCustomCommand ?? null),
    readyProbe: parseReadyCommand(row.templateReadyCommand ?? null),
  };
}

/** Heartbeats while the work lasts, so that a dead host is noticed and a cancellation arrives; passes failures on by code. */
async function onHost<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { heartbeatTimeoutMs } = activityInfo();
  const beat = setInterval(() => heartbeat(), Math.max(200, (heartbeatTimeoutMs ?? 10_000) / 10));
  try {
    return await work(Context.current().cancellationSignal);
  } catch (error) {
    if (Context.current().cancellationSignal.aborted) throw new CancelledFailure('The work on the host was cancelled');
    if (error instanceof DriverError) {
      throw ApplicationFailure.create({
        message: error.message,
        type: error.code,
        nonRetryable: !error.retryable,
        details: error.exit ? [error.exit] : [],
      });
    }
    throw error;
  } finally {
    clearInterval(beat);
  }
}
