import fs from 'node:fs';
import path from 'node:path';
import type { V1Pod } from '@kubernetes/client-node';
import type { NodeGroups } from '../../node-helper/node-groups.ts';

/** The first process of a container, with its process number on the node. */
export interface PodProcess {
  pid: number;
  containerId: string;
}

/** @returns null when the container does not run */
export function findFirstProcess(pod: V1Pod, container: string, groups: NodeGroups): PodProcess | null {
  const status = pod.status?.containerStatuses?.find(({ name }) => name === container);
  const containerId = status?.state?.running ? status.containerID?.split('://')[1] : undefined;
  if (containerId === undefined) return null;
  const group = groups.find(pod.metadata!.uid!, containerId);
  if (group === null) return null;
  const pid = numbersIn(path.join(group, 'cgroup.procs')).find(isFirst);
  return pid === undefined ? null : { pid, containerId };
}

/** Whether a process is the first one of a container. The first process of a nested PID namespace is not. */
function isFirst(pid: number): boolean {
  const status = readIfThere(`/proc/${pid}/status`);
  const numbers = /^NSpid:\s*(.+)$/m.exec(status)?.[1]?.split(/\s+/) ?? [];
  return numbers.length === 2 && numbers[1] === '1';
}

const numbersIn = (file: string) => readIfThere(file).split('\n').filter(Boolean).map(Number);

/** The content of a file. Empty if its process or control group is gone meanwhile. */
function readIfThere(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ENODEV', 'ESRCH'].includes((error as NodeJS.ErrnoException).code!)) return '';
    throw error;
  }
}
