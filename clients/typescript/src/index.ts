export type { ApiKeys } from './api-keys.ts';
export type { Progress } from './archive-writer.ts';
export type { CodeResult, Execution, RunCodeOptions } from './code.ts';
export type {
  CommandHandle,
  CommandOptions,
  CommandResult,
  Commands,
  FollowOptions,
  KillSignal,
  RunningProcess,
} from './commands.ts';
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
export type {
  ApiKey,
  CreatedApiKey,
  ImportJob,
  Sandbox as SandboxInfo,
  SandboxMetrics,
  SandboxSummary,
  Template,
  TemplateItem,
  Webhook,
  WebhookDelivery,
} from './generated/api.ts';
export type { CloneOptions, CommitOptions, Git, GitFile, GitOptions, GitStatus, PushOptions } from './git.ts';
export { Platform } from './platform.ts';
export type { PortRequest, PortResponse, Ports, WaitForPortOptions } from './ports.ts';
export type { Output } from './process-stream.ts';
export type { Pty, PtyOptions, Terminal, TerminalSize } from './pty.ts';
export type { RequestOptions } from './request-options.ts';
export { type CreateOptions, type ListOptions, type MetricsOptions, Sandbox } from './sandbox.ts';
export type { FromSandboxOptions, ImportOptions, ListTemplatesOptions, Templates } from './templates.ts';
export type { UsageOptions, UsageReports } from './usage-reports.ts';
export { type CreateWebhookOptions, type VerifyOptions, type WebhookEvent, Webhooks } from './webhooks.ts';
