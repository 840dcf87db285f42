import { findSandboxStatus } from '../../../db/sandboxes/sandbox-status.ts';
import { AppError, type ErrorCode } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { SandboxStatus } from '../../../domain/sandboxes/state.ts';
import type { ApiDependencies } from '../../dependencies.ts';
import { type AgentPlace, AgentRefusal, AgentUnreachable } from '../../sandbox-agents.ts';

/** The columns that are needed to call a sandbox's agent. */
export interface AgentRow {
  sandboxId: SandboxId;
  secretKeyNumber: number;
  status: SandboxStatus;
  hostId?: string | null | undefined;
  agentAddress?: string | null | undefined;
  agentPort?: number | null | undefined;
}

/**
 * The error codes of the agent's refusals. It is a map because an agent may send any code, such as `constructor` or
 * `__proto__`.
 */
const refusals = new Map<string, ErrorCode>([
  ['in_progress', 'exec_in_progress'],
  ['invalid_cwd', 'invalid_cwd'],
  ['too_long', 'validation_failed'],
  ['cannot_start', 'exec_not_possible'],
  ['no_run', 'exec_not_found'],
]);
const texts: Partial<Record<ErrorCode, string>> = {
  exec_in_progress: 'A command is already running in the sandbox; wait for its end or cancel it',
  exec_not_found: 'No such command is running in the sandbox',
};

/** Errors of routes that call the agent. */
export const ofAgentCalls: ErrorCode[] = ['not_found', 'sandbox_not_running'];

/**
 * Calls the agent of a running sandbox.
 * @throws {AppError} `sandbox_not_running`, the refusal of the agent, `temporarily_unavailable`
 */
export async function askAgent<T>(
  deps: ApiDependencies,
  row: AgentRow,
  ask: (place: AgentPlace) => Promise<T>,
): Promise<T> {
  const { sandboxId, secretKeyNumber, status, hostId = null, agentAddress, agentPort } = row;
  if (status !== 'running' || !agentAddress || !agentPort) throw notRunning(status);
  try {
    return await ask({ sandboxId, secretKeyNumber, hostId, address: agentAddress, port: agentPort });
  } catch (error) {
    const code = error instanceof AgentRefusal ? refusals.get(error.code) : undefined;
    if (code) throw new AppError(code, texts[code] ?? `The command cannot be run: ${(error as Error).message}`);
    if (!(error instanceof AgentRefusal || error instanceof AgentUnreachable)) throw error;
    // The agent is also unreachable while its sandbox is being frozen or ended.
    const now = await findSandboxStatus(deps.orm.em, sandboxId);
    if (now && now.status !== 'running') throw notRunning(now.status);
    throw new AppError('temporarily_unavailable', 'The sandbox does not answer now; try again', { cause: error });
  }
}

function notRunning(status: SandboxStatus): AppError {
  return new AppError('sandbox_not_running', `The sandbox is ${status}, not running`);
}
