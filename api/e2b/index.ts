import type { Api, ApiDependencies } from '../dependencies.ts';
import { createE2bSandbox } from './create.ts';
import {
  connectE2bSandbox,
  getE2bSandbox,
  killE2bSandbox,
  pauseE2bSandbox,
  refreshE2bSandbox,
  resumeE2bSandbox,
  setE2bTimeout,
} from './life.ts';
import { listE2bSandboxes, listRunningE2bSandboxes } from './list.ts';
import { getE2bSandboxLogs, searchE2bSandboxLogs } from './logs.ts';
import { getE2bSandboxMetrics } from './metrics.ts';
import { refuseTheRest } from './refused.ts';
import { listE2bTeams } from './teams.ts';
import { deleteE2bTemplate, findE2bTemplateAlias, getE2bTemplate, listE2bTemplates } from './templates.ts';

/**
 * The API in the protocol of E2B's control plane, for programs that were written for it: other addresses, bodies and
 * errors over the same rows and commands as `/v1`. Facts about the protocol: the OpenAPI document of
 * https://github.com/e2b-dev/infra, and what the published SDKs send and read.
 */
export const e2bRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  createE2bSandbox,
  listE2bSandboxes,
  listRunningE2bSandboxes,
  getE2bSandbox,
  killE2bSandbox,
  connectE2bSandbox,
  pauseE2bSandbox,
  resumeE2bSandbox,
  setE2bTimeout,
  refreshE2bSandbox,
  getE2bSandboxMetrics,
  getE2bSandboxLogs,
  searchE2bSandboxLogs,
  listE2bTemplates,
  getE2bTemplate,
  findE2bTemplateAlias,
  deleteE2bTemplate,
  listE2bTeams,
  refuseTheRest,
];
