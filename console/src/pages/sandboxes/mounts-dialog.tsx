import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { visibleText } from '../../format/text.ts';
import { MountsForm } from './mounts-form.tsx';
import type { Sandbox } from './sandbox-words.ts';
import { useMove } from './use-sandbox.ts';

export const hasMounts = ({ object_storage: slots }: Sandbox) => (slots ?? []).some(({ state }) => state !== 'free');

/** Resumes or restarts a sandbox whose buckets may need new keys, or that gets other buckets. */
export function MountsDialog(props: {
  label: string;
  operation: 'resumeSandbox' | 'restartSandbox';
  sandbox: Sandbox;
  isPrimary?: boolean;
}) {
  const { label, operation, sandbox } = props;
  const move = useMove(operation, sandbox.sandbox_id, 'resuming');
  const notify = useNotice();
  const isRestart = operation === 'restartSandbox';
  return (
    <DialogButton label={label} title={`${label}: ${visibleText(sandbox.name)}`} isPrimary={props.isPrimary} isWide>
      {(close) => (
        <>
          <p>
            {isRestart
              ? 'All its processes end, and what they had in memory is lost. Each mounted bucket needs its keys again.'
              : 'Buckets with long-lived keys stay mounted, unless their host has restarted since.'}
          </p>
          <MountsForm
            slots={sandbox.object_storage ?? []}
            submitLabel={isRestart ? 'Restart' : 'Resume'}
            isDangerous={isRestart}
            run={(body) => move.mutateAsync(body)}
            onDone={() => {
              close();
              notify(`${visibleText(sandbox.name)} runs again`);
            }}
            onCancel={close}
          />
        </>
      )}
    </DialogButton>
  );
}
