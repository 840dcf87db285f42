import { useRead } from '../../api/queries.ts';
import { useIsAdmin } from '../../api/session.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Copyable, Facts } from '../../components/values.tsx';

/** For operators: the workflow that owns the sandbox, in the Temporal Web UI. */
export function WorkflowOfSandbox({ sandboxId }: { sandboxId: string }) {
  const isAdmin = useIsAdmin();
  const read = useRead('getSandboxWorkflow', { path: { sandbox_id: sandboxId } }, { when: isAdmin });
  if (!isAdmin) return null;
  return (
    <Loaded read={read}>
      {({ workflow_id, web_ui_url: url }) => (
        <Facts
          rows={[
            [
              'Workflow',
              url !== null && /^https?:\/\//.test(url) ? (
                <a key="workflow" href={url} target="_blank" rel="noreferrer">
                  Open in Temporal<span className="hidden"> (in a new tab)</span>
                </a>
              ) : (
                <Copyable key="workflow" text={workflow_id} label="Workflow id" />
              ),
            ],
          ]}
        />
      )}
    </Loaded>
  );
}
