import { visibleText } from '../../format/text.ts';
import './differences.css';

type Fields = Readonly<Record<string, unknown>>;

/**
 * What a change has done to the fields of an object. Without `before` it is new, without `after` it is gone.
 * @param props.maxLength of each value; the rest is cut off
 */
export function Differences(props: { before: Fields | null; after: Fields | null; maxLength?: number }) {
  const { before, after, maxLength } = props;
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  if (names.length === 0) return <span className="none">–</span>;
  return (
    <div>
      {names.map((name) => (
        <div key={name} className="difference">
          <span className="soft">{name.replaceAll('_', ' ')}: </span>
          {before && <del>{shown(before[name], maxLength)}</del>}
          {before && after && (
            <>
              <span aria-hidden="true"> → </span>
              <span className="hidden"> is now </span>
            </>
          )}
          {after && <ins>{shown(after[name], maxLength)}</ins>}
        </div>
      ))}
    </div>
  );
}

function shown(value: unknown, maxLength = Number.POSITIVE_INFINITY): string {
  if (value === null || value === undefined || value === '') return 'none';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return visibleText(text.length > maxLength ? `${text.slice(0, maxLength)}…` : text);
}
