import { type ReactNode, useState } from 'react';
import { Dialog } from './dialog.tsx';

/**
 * A dialog that shows a secret for the only time, so it does not close at the first try.
 * @param props.secret what it is: `key`, `password`
 */
export function SecretDialog(props: { title: string; secret: string; onClose: () => void; children: ReactNode }) {
  const { title, secret, onClose, children } = props;
  const [isWarned, setWarned] = useState(false);
  return (
    <Dialog title={title} onClose={() => (isWarned ? onClose() : setWarned(true))}>
      {children}
      {isWarned && <p role="alert">The {secret} cannot be shown again. Close again to leave.</p>}
      <footer className="dialog-footer">
        <button type="button" className="primary" onClick={onClose}>
          I have kept the {secret}
        </button>
      </footer>
    </Dialog>
  );
}
