import { type ReactNode, useState } from 'react';
import type { ApiError } from '../api/client.ts';
import { Dialog } from './dialog.tsx';
import { Problem } from './problem.tsx';

/**
 * A button for something that cannot be undone. It asks first, and names the object.
 * @param props.object the name of what is changed, as the person knows it
 * @param props.what what happens, in a sentence
 */
export function ConfirmedButton(props: {
  label: string;
  object: string;
  what: ReactNode;
  run: () => Promise<unknown>;
  isDisabled?: boolean;
  onDone?: () => void;
}) {
  const [isOpen, setOpen] = useState(false);
  const [isRunning, setRunning] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const close = () => {
    setOpen(false);
    setFailure(null);
  };
  const run = async () => {
    setRunning(true);
    setFailure(null);
    try {
      await props.run();
      close();
      props.onDone?.();
    } catch (error) {
      setFailure(error as ApiError);
    } finally {
      setRunning(false);
    }
  };
  return (
    <>
      <button type="button" className="danger" disabled={props.isDisabled} onClick={() => setOpen(true)}>
        {props.label}
      </button>
      {isOpen && (
        <Dialog title={`${props.label}: ${props.object}`} onClose={close}>
          <p>{props.what}</p>
          {failure && <Problem error={failure} />}
          <footer className="dialog-footer">
            <button type="button" onClick={close}>
              Cancel
            </button>
            <button type="button" className="danger primary" disabled={isRunning} onClick={run}>
              {isRunning ? 'Working …' : `${props.label} ${props.object}`}
            </button>
          </footer>
        </Dialog>
      )}
    </>
  );
}
