import type { OwnInput } from '../../components/body-inputs.tsx';
import { formatDuration } from '../../format/time.ts';

/** Seconds as a number, and below them what they are in larger units. */
export const SecondsInput: OwnInput = ({ value, onChange, ...ids }) => (
  <>
    <input
      {...ids}
      type="number"
      min={60}
      step={1}
      placeholder="300"
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
    {Number(value) >= 60 && <output htmlFor={ids.id}>{formatDuration(Number(value))}</output>}
  </>
);
