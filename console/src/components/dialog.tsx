import { type ReactNode, useEffect, useId, useRef } from 'react';

/**
 * A dialog over the page. The browser keeps the focus in it, ends it with Escape, and gives the focus back.
 * @param props.onClose called when the person closes it; the owner then removes it
 */
export function Dialog(props: { title: string; onClose: () => void; children: ReactNode; isWide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = ref.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={ref}
      className={props.isWide ? 'dialog dialog-wide' : 'dialog'}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
    >
      <header className="dialog-header">
        <h2 id={titleId}>{props.title}</h2>
        <button type="button" className="quiet" aria-label="Close" onClick={props.onClose}>
          ✕
        </button>
      </header>
      {props.children}
    </dialog>
  );
}
