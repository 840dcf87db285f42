import type { SandboxId } from '../../domain/ids.ts';
import { type DiskCopy, DriverError, type SandboxDriver } from '../../runtime/driver.ts';
import { hostWork } from '../hosts/host-work.ts';

/** The activity of hosts for backups. */
export function createDiskCopyHostActivities({ driver }: { driver: SandboxDriver }) {
  const onHost = hostWork();
  return {
    /** @returns null when no process of the sandbox is there, so that nothing writes to its disk */
    copyDisk(copyId: string, sandboxId: SandboxId): Promise<DiskCopy | null> {
      return onHost(async (signal) => {
        try {
          return await driver.builds.copyDisk(copyId, sandboxId, signal);
        } catch (error) {
          if (!(error instanceof DriverError)) throw error;
          // An end of the sandbox aborts its copy.
          const hasEnded = error.code === 'sandbox_absent' || (error.code === 'aborted' && !signal.aborted);
          if (hasEnded) return null;
          throw error;
        }
      });
    },
  };
}

export type DiskCopyHostActivities = ReturnType<typeof createDiskCopyHostActivities>;
