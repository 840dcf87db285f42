import fs from 'node:fs';

/** The highest score, so that the kernel ends even the smallest process before the agent. */
const score = '1000';

/**
 * Makes the kernel end clients' processes before the agent when memory runs out; the end of the agent would end the
 * sandbox. Children inherit the score; children that `pid` has started already get it here. Raising it needs no
 * privilege.
 */
export function endBeforeAgent(pid: number): void {
  try {
    fs.writeFileSync(`/proc/${pid}/oom_score_adj`, score);
    const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
    for (const child of children.split(' ')) if (child !== '') endBeforeAgent(Number(child));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // The process has ended, there is no /proc, or the process runs as another user now (sudo).
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES' || code === 'EPERM') return;
    console.error('agent: a process is not marked to be ended first:', message);
  }
}
