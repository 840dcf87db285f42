import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { addSandboxToProject } from './add-sandbox.ts';
import { createProject } from './create.ts';
import { deleteProject } from './delete.ts';
import { evictSandboxFromProject } from './evict-sandbox.ts';
import { getProject } from './get.ts';
import { listProjects } from './list.ts';
import { listProjectSandboxes } from './list-sandboxes.ts';
import { updateProject } from './update.ts';

/** The routes of projects and of the sandboxes in them. */
export const projectRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  createProject,
  listProjects,
  getProject,
  updateProject,
  deleteProject,
  listProjectSandboxes,
  addSandboxToProject,
  evictSandboxFromProject,
];
