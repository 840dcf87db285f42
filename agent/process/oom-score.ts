import fs from 'node:fs';

/** The highest score, so that the kernel kills even the smallest process before the agent. */
const score = '1000';

/**
 * A fork that the kernel has begun before the write copies the old score and adds its child to the list of children
 * after the read. The children are therefore read again after these times.
 */
const againMs = [50, 1000];

/**
 * Makes the kernel kill clients' processes before the agent when memory runs out, because the agent's end would end the
 * sandbox. Children inherit the score, and existing children of `pid` get it here. Raising the score needs no
 * privilege.
 */
export function endBeforeAgent(pid: number): void {
  raiseScore(pid);
  for (const afterMs of againMs) setTimeout(() => raiseScore(pid), afterMs).unref();
}

function raiseScore(pid: number): void {
  try {
    fs.writeFileSync(`/proc/${pid}/oom_score_adj`, score);
    const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
    for (const child of children.split(' ')) if (child !== '') raiseScore(Number(child));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // The process has ended, there is no /proc, or the process now runs as another user (sudo).
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES' || code === 'EPERM') return;
    console.error('agent: the OOM score of a process could not be raised:', message);
  }
}
