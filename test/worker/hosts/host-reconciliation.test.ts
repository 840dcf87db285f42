import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { toSpec } from '../../../activities/sandboxes/spec.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { SandboxInspection } from '../../../runtime/driver.ts';
import { HostReconciliation, type ReconcilingDriver } from '../../../worker/hosts/reconciliation.ts';
import { SandboxFacts } from '../../../worker/sandboxes/facts.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';

/** A driver that fails for some sandboxes, for example because files cannot be read or removed. */
class FailingDriver extends MemoryDriver implements ReconcilingDriver {
  readonly unreadable = new Set<string>();
  readonly unremovable = new Set<string>();
  reconcile = async () => undefined;
  repairLinks = async () => [];
  withoutAgent = () => [];
  restartAgent = async () => {};

  override async inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    if (this.unreadable.has(sandboxId)) throw new Error('EIO: i/o error');
    return super.inspect(sandboxId);
  }

  override async remove(sandboxId: SandboxId): Promise<void> {
    if (this.unremovable.has(sandboxId)) throw new Error('EPERM: operation not permitted');
    return super.remove(sandboxId);
  }
}

const driver = new FailingDriver();
let plane: ControlPlane;
beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro', relay: false });
}, 120_000);
afterAll(() => plane.stop());

test('errors of some sandboxes are logged when a host starts, and the others are taken over', async () => {
  const started = async () => {
    const sandbox = await plane.admit();
    await plane.commands.start(sandbox, { wait: true });
    return plane.row(sandbox.sandboxId);
  };
  const over = [await started(), await started()] as const;
  for (const { sandboxId } of over) {
    const sandbox = await plane.row(sandboxId);
    await plane.commands.terminate(sandbox, { forget: false });
    await plane.client.workflow.getHandle(sandboxId).result();
    // The state if the host was down at the end.
    await plane.orm.em
      .getConnection()
      .execute('update sandboxes set holds_disk = true where sandbox_id = ?', [sandboxId]);
    driver.states.set(sandboxId, 'exited');
  }
  const frozen = [await started(), await started(), await started()] as const;
  for (const { sandboxId } of frozen) driver.states.set(sandboxId, 'paused');
  driver.unremovable.add(over[0].sandboxId);
  driver.unreadable.add(frozen[1].sandboxId);

  const logged: { level: number; sandboxId?: SandboxId }[] = [];
  const logger = pino({ level: 'warn' }, { write: (line) => logged.push(JSON.parse(line)) });
  const facts = new SandboxFacts({ client: plane.client, logger });
  const { orm, plans, hostId, secrets } = plane;
  const createSpec = (row: Parameters<typeof toSpec>[0]) =>
    toSpec(row, { secrets, environment: {}, internetEnvironment: {} });
  const reconciliation = new HostReconciliation({ orm, plans, driver, facts, hostId, createSpec, logger });
  await reconciliation.takeOver(new Date());
  facts.stop();

  expect(driver.states.get(over[1].sandboxId)).toBeUndefined();
  expect(await plane.row(over[1].sandboxId)).toMatchObject({ holdsDisk: false });
  expect(await plane.row(over[0].sandboxId)).toMatchObject({ holdsDisk: true });
  const states = frozen.map(({ sandboxId }) => driver.states.get(sandboxId));
  expect(states).toEqual(['running', 'paused', 'running']);
  const names = new Set(logged.map(({ sandboxId }) => sandboxId));
  expect(names).toEqual(new Set([over[0].sandboxId, frozen[1].sandboxId]));
});
