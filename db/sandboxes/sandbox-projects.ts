import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import type { ProjectId, SandboxId } from '../../domain/ids.ts';
import { Project } from '../accounts/project.entity.ts';
import { requestSignal } from '../core/outbox.ts';
import { entitiesWithin, type Scope, scopeTransaction } from '../core/scope.ts';
import { recordUsage } from '../usage/usage-events.ts';
import { Sandbox } from './sandbox.entity.ts';
import { recordSandboxEvent } from './sandbox-events.ts';

/**
 * Moves a running sandbox to another project. The caller must be able to see both, and both must belong to the same
 * user, because a project of another user would hide the sandbox's usage from its owner.
 * @returns the previous project
 * @throws {AppError} `not_found`, `project_of_another_user`, `sandbox_not_running`
 */
export async function moveSandboxToProject(
  em: EntityManager,
  scope: Scope,
  sandboxId: SandboxId,
  projectId: ProjectId,
): Promise<ProjectId> {
  const mine = entitiesWithin(scope);
  return scopeTransaction(em, scope, async (tx) => {
    // A shared lock, so that the project cannot be deleted meanwhile, and other moves into it do not wait.
    const project = await tx.findOne(Project, { projectId, ...mine }, { lockMode: LockMode.PESSIMISTIC_READ });
    if (!project) throw notFound('Project');
    const sandbox = await tx.findOne(
      Sandbox,
      { sandboxId, deletedAt: null, ...mine },
      { lockMode: LockMode.PESSIMISTIC_WRITE },
    );
    if (!sandbox) throw notFound('Sandbox');
    if (project.ownerUserId !== sandbox.ownerUserId) {
      throw new AppError('project_of_another_user', "A sandbox can only be in a project of the sandbox's own user");
    }
    if (sandbox.status !== 'running') {
      throw new AppError(
        'sandbox_not_running',
        `Only a running sandbox can change its project; this one is ${sandbox.status}`,
      );
    }
    const previous = sandbox.projectId;
    if (previous !== projectId) {
      // The usage until now belongs to the previous project.
      await recordUsage(tx, sandbox, new Date());
      sandbox.projectId = projectId;
      requestSignal(tx, 'sandbox', sandboxId, 'projectSwitched', { projectId });
      recordSandboxEvent(tx, sandbox, 'sandbox.project_switched', new Date());
    }
    return previous;
  });
}
