/** A frequent list query of workflows for operators, by search attributes of the platform and of Temporal. */
export interface WorkflowQuery {
  /** A description of the workflows that it finds. */
  finds: string;
  query: string;
}

/** Useful columns of the Web UI's list for these queries. People add them there with "Columns". */
export const listColumns = [
  'Status',
  'Workflow ID',
  'Workflow Type',
  'SandboxStatus',
  'AccountId',
  'HostId',
  'Start',
  'End',
];

/** @param now times in the queries are absolute, because Temporal's list filter has no relative times */
export function workflowQueries(now: Date): WorkflowQuery[] {
  const before = (minutes: number) => new Date(now.getTime() - minutes * 60_000).toISOString();
  return [
    { finds: 'sandboxes that run', query: 'WorkflowType="sandbox" and SandboxStatus="running"' },
    { finds: 'paused sandboxes', query: 'WorkflowType="sandbox" and SandboxStatus="paused"' },
    {
      finds: 'sandboxes that failed in the last hour',
      query: `WorkflowType="sandbox" and ExecutionStatus="Failed" and CloseTime > "${before(60)}"`,
    },
    {
      finds: 'sandboxes that have been starting for five minutes',
      query: `WorkflowType="sandbox" and SandboxStatus="starting" and ExecutionStatus="Running" and StartTime < "${before(5)}"`,
    },
    {
      finds: 'sandboxes that are ending',
      query: 'WorkflowType="sandbox" and SandboxStatus="terminating" and ExecutionStatus="Running"',
    },
    {
      finds: 'webhook deliveries that are retried',
      query: 'WorkflowType="webhookDelivery" and ExecutionStatus="Running"',
    },
    {
      finds: 'running imports and builds',
      query: '(WorkflowType="imageImport" or WorkflowType="templateBuild") and ExecutionStatus="Running"',
    },
    { finds: 'watches of hosts', query: 'WorkflowType="host" and ExecutionStatus="Running"' },
    {
      finds: 'other workflows that failed in the last day',
      query: `WorkflowType!="sandbox" and ExecutionStatus in ("Failed", "TimedOut", "Terminated") and CloseTime > "${before(24 * 60)}"`,
    },
  ];
}

/**
 * The output of `npm run temporal -- queries`. @param ui the Web UI's namespace page; null when there is no known Web
 * UI
 */
export function queriesForPeople(now: Date, ui: { url: string; namespace: string } | null): string {
  const blocks = workflowQueries(now).map(({ finds, query }) =>
    [
      `${finds}:`,
      `  npm run temporal -- workflow list --query '${query}'`,
      ...(ui ? [`  ${ui.url}/namespaces/${ui.namespace}/workflows?query=${encodeURIComponent(query)}`] : []),
    ].join('\n'),
  );
  return `${blocks.join('\n\n')}\n\nColumns for the Web UI's list: ${listColumns.join(', ')}\n`;
}
