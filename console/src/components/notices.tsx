import { createContext, type ReactNode, useCallback, useContext, useState } from 'react';

const Notify = createContext<(text: string) => void>(() => {});
const shownMs = 4000;

/** Tells the person that something has been done, without taking the focus. */
export const useNotice = () => useContext(Notify);

export function Notices(props: { children: ReactNode }) {
  const [notices, setNotices] = useState<readonly { id: number; text: string }[]>([]);
  const notify = useCallback((text: string) => {
    const id = Math.random();
    setNotices((before) => [...before.slice(-2), { id, text }]);
    window.setTimeout(() => setNotices((before) => before.filter((each) => each.id !== id)), shownMs);
  }, []);
  return (
    <Notify value={notify}>
      {props.children}
      <div className="notices" role="status">
        {notices.map(({ id, text }) => (
          <p key={id}>{text}</p>
        ))}
      </div>
    </Notify>
  );
}
