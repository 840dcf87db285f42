import type { ReactNode } from 'react';

/** A number that matters, in large. Several stand in an element of the class `figures`. */
export function Figure(props: { label: ReactNode; value: ReactNode }) {
  return (
    <div className="figure">
      <span className="figure-value">{props.value}</span>
      <span className="figure-label">{props.label}</span>
    </div>
  );
}
