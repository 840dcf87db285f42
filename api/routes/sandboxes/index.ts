import type { Api, ApiDependencies } from '../../dependencies.ts';
import { batchDeleteSandboxes } from './batch-delete.ts';
import { batchPauseSandboxes } from './batch-pause.ts';
import { batchResumeSandboxes } from './batch-resume.ts';
import { batchTerminateSandboxes } from './batch-terminate.ts';
import { connectSandbox } from './connect.ts';
import { createSandbox } from './create.ts';
import { createTemplateFromSandbox } from './create-template.ts';
import { deleteSandbox } from './delete.ts';
import { getActiveExec } from './exec-active.ts';
import { cancelExec } from './exec-cancel.ts';
import { startExec } from './exec-start.ts';
import { streamExec } from './exec-stream.ts';
import { getSandbox } from './get.ts';
import { listSandboxes } from './list.ts';
import { getSandboxMetrics } from './metrics.ts';
import { getSandboxMetricsChart } from './metrics-chart.ts';
import { pauseSandbox } from './pause.ts';
import { addSandboxPort } from './ports-add.ts';
import { listSandboxPorts } from './ports-list.ts';
import { removeSandboxPort } from './ports-remove.ts';
import { raiseSandboxTimeout } from './raise-timeout.ts';
import { restartSandbox } from './restart.ts';
import { resumeSandbox } from './resume.ts';
import { setSandboxTimeout } from './set-timeout.ts';
import { getSandboxStats } from './stats.ts';
import { getSandboxStatus } from './status.ts';
import { switchSandboxProject } from './switch-project.ts';
import { terminateSandbox } from './terminate.ts';
import { getTurnCredential } from './webrtc-turn-credential.ts';

/** The routes of sandboxes. */
export const sandboxRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  createSandbox,
  listSandboxes,
  getSandboxStats,
  getSandbox,
  getSandboxStatus,
  getSandboxMetrics,
  getSandboxMetricsChart,
  raiseSandboxTimeout,
  setSandboxTimeout,
  connectSandbox,
  pauseSandbox,
  resumeSandbox,
  restartSandbox,
  terminateSandbox,
  deleteSandbox,
  switchSandboxProject,
  createTemplateFromSandbox,
  listSandboxPorts,
  addSandboxPort,
  removeSandboxPort,
  getTurnCredential,
  startExec,
  streamExec,
  getActiveExec,
  cancelExec,
  batchDeleteSandboxes,
  batchTerminateSandboxes,
  batchPauseSandboxes,
  batchResumeSandboxes,
];
