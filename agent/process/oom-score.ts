import fs from 'node:fs';

/** The highest score, so that the kernel kills even the smallest process before the agent. */
const score = '1000';

/**
 * Makes the kernel kill clients' processes before the agent when memory runs out, because the agent's end would end the
 * sandbox. Children inherit the score, and existing children of `pid` get it here. Raising the score needs no
 * privilege.
 */
export function endBeforeAgent(pid: number): void {
  try {
    fs.writeFileSync(`/proc/${pid}/oom_score_adj`, score);
    const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
    for (const child of children.split(' ')) if (child !== '') endBeforeAgent(Number(child));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // The process has ended, there is no /proc, or the process now runs as another user (sudo).
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES' || code === 'EPERM') return;
    console.error('agent: the OOM score of a process could not be raised:', message);
  }
}
