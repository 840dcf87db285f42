import type { SandboxSpec } from '../driver.ts';
import type { PhaseReports } from '../phase-reports.ts';

/** One call that starts, resumes or restarts a sandbox. */
export interface StartWork {
  spec: SandboxSpec;
  phases: PhaseReports;
  signal: AbortSignal;
}
