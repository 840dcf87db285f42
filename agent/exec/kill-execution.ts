import fs from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Set in the environment of an execution's processes, so that processes that left its session can still be found. */
export const executionVariable = 'SANDBOX_EXEC_RUN';

const roundMs = 10;
/** How long to repeat the kill. A process that survives it waits inside the kernel, and dies when that wait ends. */
const limitMs = 2000;

/**
 * Kills every process of an execution: its session, its process group, its descendants, and processes with its
 * variable. Repeats until none is left, because processes may start others meanwhile. A process that has left the
 * session, lost its parent and cleared its environment is not found.
 * @param pid the leader of the execution's session
 */
export async function killExecution(pid: number, executionId: string): Promise<void> {
  const mark = Buffer.from(`${executionVariable}=${executionId}\0`);
  for (const giveUpMs = performance.now() + limitMs; performance.now() < giveUpMs; await delay(roundMs)) {
    const found = processesOfExecution(pid, mark);
    if (found.length === 0) return;
    for (const each of found) kill(each);
  }
  console.error(`agent: processes of execution ${executionId} have not ended`);
}

interface Process {
  pid: number;
  parent: number;
  group: number;
  session: number;
}

function processesOfExecution(leader: number, mark: Buffer): number[] {
  const all = fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcess(Number(name)) ?? []);
  const found = new Set<number>();
  for (const { pid, group, session } of all) {
    if (pid === process.pid) continue;
    if (pid === leader || group === leader || session === leader || carries(pid, mark)) found.add(pid);
  }
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return [...found];
}

/** Undefined for a process that is gone, or is dead and not reaped yet. */
function readProcess(pid: number): Process | undefined {
  const stat = read(`/proc/${pid}/stat`)?.toString('latin1');
  if (!stat) return undefined;
  // The name in parentheses may contain any character, including parentheses.
  const [state, parent, group, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (state === 'Z' || state === 'X') return undefined;
  return { pid, parent: Number(parent), group: Number(group), session: Number(session) };
}

function carries(pid: number, mark: Buffer): boolean {
  const environment = read(`/proc/${pid}/environ`);
  if (!environment) return false;
  const at = environment.indexOf(mark);
  return at === 0 || (at > 0 && environment[at - 1] === 0);
}

function read(file: string): Buffer | undefined {
  try {
    return fs.readFileSync(file);
  } catch (error) {
    // The process has ended meanwhile, or belongs to a user whose processes the agent may not read.
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
