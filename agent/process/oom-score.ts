import fs from 'node:fs';

/** The most there is: even the smallest process goes before the agent. */
const score = '1000';

/**
 * Has the kernel, when memory runs out, end what clients have started before it ends the agent, which would end the
 * sandbox. Children inherit it; those that `pid` has started already are found. Raising needs no privilege.
 */
export function endBeforeAgent(pid: number): void {
  try {
    fs.writeFileSync(`/proc/${pid}/oom_score_adj`, score);
    const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
    for (const child of children.split(' ')) if (child !== '') endBeforeAgent(Number(child));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // It has ended (or there is no /proc); or it has become another user's, with sudo and its kin.
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES' || code === 'EPERM') return;
    console.error('agent: a process is not marked to be ended first:', message);
  }
}
