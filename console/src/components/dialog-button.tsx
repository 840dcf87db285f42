import { type ReactNode, useState } from 'react';
import { Dialog } from './dialog.tsx';

/**
 * A button that opens a dialog, for example with a form.
 * @param props.children the content of the dialog; `close` ends it
 */
export function DialogButton(props: {
  label: string;
  /** Absent: the label. */
  title?: string;
  isPrimary?: boolean;
  isWide?: boolean;
  children: (close: () => void) => ReactNode;
}) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <button type="button" className={props.isPrimary ? 'primary' : undefined} onClick={() => setOpen(true)}>
        {props.label}
      </button>
      {isOpen && (
        <Dialog title={props.title ?? props.label} isWide={props.isWide ?? false} onClose={close}>
          {props.children(close)}
        </Dialog>
      )}
    </>
  );
}
