import type { Api, ApiDependencies } from '../../dependencies.ts';
import { batchDeleteSandboxes, batchPauseSandboxes, batchResumeSandboxes, batchTerminateSandboxes } from './batch.ts';
import { getSandboxCost } from './cost.ts';
import { createSandbox } from './create.ts';
import { createTemplateFromSandbox } from './create-template.ts';
import { cancelExec, getActiveExec } from './exec/active.ts';
import { startExec } from './exec/start.ts';
import { streamExec } from './exec/stream.ts';
import {
  connectSandbox,
  deleteSandbox,
  pauseSandbox,
  restartSandbox,
  resumeSandbox,
  terminateSandbox,
} from './life.ts';
import { listEventsOfSandbox } from './life-events.ts';
import { listSandboxes } from './list.ts';
import { getSandboxMetrics, getSandboxStats } from './metrics.ts';
import { getSandboxMetricsChart } from './metrics-chart.ts';
import { addSandboxPort, listSandboxPorts, removeSandboxPort } from './ports.ts';
import { getSandbox, getSandboxStatus } from './read.ts';
import { switchSandboxProject } from './switch-project.ts';
import { raiseSandboxTimeout, setSandboxTimeout } from './timeouts.ts';
import { getTurnCredential } from './webrtc-turn-credential.ts';
import { getSandboxWorkflow } from './workflow.ts';

/** The routes of sandboxes. */
export const sandboxRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  createSandbox,
  listSandboxes,
  getSandboxStats,
  getSandbox,
  getSandboxStatus,
  getSandboxMetrics,
  getSandboxMetricsChart,
  listEventsOfSandbox,
  getSandboxCost,
  getSandboxWorkflow,
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
