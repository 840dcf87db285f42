export type { Progress } from './archive-writer.ts';
export type { CodeResult, Execution, RunCodeOptions } from './code.ts';
export type { CommandHandle, CommandOptions, CommandResult, Commands, RunningProcess } from './commands.ts';
export type { AgentLimits, ConnectionOptions } from './connection-options.ts';
export { CommandFailedError, SandboxError } from './errors.ts';
export type {
  CopyOptions,
  CopyResult,
  FileContent,
  FileEvent,
  FileInfo,
  Files,
  FileWatch,
  NewFile,
} from './files.ts';
export type * from './generated/agent.ts';
export type { Sandbox as SandboxInfo, SandboxSummary } from './generated/api.ts';
export type { PortResponse, Ports } from './ports.ts';
export type { Output } from './process-stream.ts';
export type { Pty, PtyOptions, Terminal, TerminalSize } from './pty.ts';
export { type CreateOptions, type ListOptions, Sandbox } from './sandbox.ts';
