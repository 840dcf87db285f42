/** How much of a limit is used. @param props.limit null: nothing limits it */
export function Meter(props: { label: string; used: number; limit: number | null; format: (value: number) => string }) {
  const { label, used, limit, format } = props;
  return (
    <div className="meter">
      <span>
        {label}: {format(used)}
        {limit === null ? '' : ` of ${format(limit)}`}
      </span>
      {limit !== null && <meter aria-label={label} value={used} min={0} max={limit} high={limit * 0.8} optimum={0} />}
    </div>
  );
}
