import { z } from 'zod';
import { findSandboxStatus } from '../../../db/sandboxes/sandbox-status.ts';
import { notFound } from '../../../domain/errors.ts';
import { workflowKinds } from '../../../domain/workflow-registry.ts';
import { operator } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { sandboxPath } from './reply.ts';

const workflowSchema = z.object({
  workflow_id: z.string().meta({ examples: ['sbx-9ypjhn8d3fkq6w2mzx5v'] }),
  web_ui_url: z
    .string()
    .nullable()
    .meta({ examples: ['http://127.0.0.1:8233/namespaces/default/workflows/sbx-9ypjhn8d3fkq6w2mzx5v'] })
    .describe("The workflow's page in the Temporal Web UI. Null: no address of it is configured (`TEMPORAL_UI_URL`)"),
});

/** `GET /v1/admin/sandboxes/{sandbox_id}/workflow`. */
export function getSandboxWorkflow(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/admin/sandboxes/:sandbox_id/workflow',
    config: { access: operator('everything') },
    schema: {
      operationId: 'getSandboxWorkflow',
      tags: ['Operation'],
      summary: 'Find the workflow of a sandbox',
      description: "Also of a deleted sandbox, as long as Temporal keeps the workflow's history.",
      params: sandboxPath,
      response: { 200: envelope(workflowSchema, 'The workflow'), ...failures('admin_required', 'not_found') },
    },
    handler: async ({ params: { sandbox_id: sandboxId } }) => {
      if (!(await findSandboxStatus(deps.orm.em, sandboxId))) throw notFound('Sandbox');
      const workflowId = workflowKinds.sandbox.workflowId(sandboxId);
      const { TEMPORAL_UI_URL: webUi, TEMPORAL_NAMESPACE: namespace } = deps.settings;
      const path = `/namespaces/${encodeURIComponent(namespace)}/workflows/${workflowId}`;
      return success({ workflow_id: workflowId, web_ui_url: webUi ? webUi.replace(/\/+$/, '') + path : null });
    },
  });
}
