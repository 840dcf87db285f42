import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { udpMappings } from '../../domain/sandboxes/ports.ts';
import { parseCustomCommand, parseReadyCommand } from '../../domain/templates/commands.ts';
import type { PlatformSecrets } from '../../platform/config/secrets.ts';
import type { SandboxSpec, WantedMounts } from '../../runtime/driver.ts';

/** The inputs of a specification in addition to the row. The sandbox's own environment overrides the host's. */
export interface SpecSources {
  secrets: PlatformSecrets;
  /** Variables for every sandbox of the host. */
  environment?: Record<string, string>;
  /** Variables for the sandboxes that may reach the internet. */
  internetEnvironment?: Record<string, string>;
}

/** The specification of a sandbox from its row, with its secrets. */
export function toSpec(
  row: Sandbox,
  { secrets, environment, internetEnvironment }: SpecSources,
  mounts?: WantedMounts,
): SandboxSpec {
  return {
    sandboxId: row.sandboxId,
    run: row.run ?? null,
    accountId: row.accountId,
    image: row.image,
    cpuCount: row.cpuCount,
    memoryMb: row.memoryMb,
    storageGb: row.storageGb,
    ...(row.diskRates && { diskRates: row.diskRates }),
    allowInternetAccess: row.allowInternetAccess,
    env: { ...environment, ...(row.allowInternetAccess ? internetEnvironment : {}), ...row.envVars },
    udpPorts: udpMappings(row),
    accessToken: row.secure ? secrets.agentToken(row.sandboxId, row.secretKeyNumber) : null,
    platformToken: secrets.platformToken(row.sandboxId, row.secretKeyNumber),
    command: parseCustomCommand(row.templateCustomCommand ?? null),
    startImageCommand: row.startImageCommand,
    readyProbe: parseReadyCommand(row.templateReadyCommand ?? null),
    ...(mounts && mounts.slots.length > 0 && { storage: { ...mounts, ...toDirectMount(row) } }),
  };
}

function toDirectMount({ directMount, s3fsPath }: Sandbox): Pick<WantedMounts, 'direct'> {
  return directMount ? { direct: { s3fsPath: s3fsPath || 's3fs' } } : {};
}
