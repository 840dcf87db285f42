import type { CreatePhase, SandboxSpec } from '../driver.ts';

/** One call that starts, resumes or restarts a sandbox. */
export interface StartWork {
  spec: SandboxSpec;
  onPhase: (phase: CreatePhase) => void;
  signal: AbortSignal;
}
