import { useEffect, useRef, useState } from 'react';

export interface Series {
  name: string;
  /** Time (milliseconds) or category, and value. */
  points: readonly (readonly [at: number | string, value: number | null])[];
}

export interface ChartProps {
  /** Read out instead of the picture. */
  title: string;
  kind: 'line' | 'bar';
  series: readonly Series[];
  format: (value: number) => string;
  isStacked?: boolean;
  /** The highest value of the axis; by default that of the data. */
  max?: number;
}

const heightPx = 220;

/** A chart over time or over categories, in the colours of the theme. */
export function Chart(props: ChartProps) {
  const [failure, setFailure] = useState<Error | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<{
    setOption: (option: object, replaces: boolean) => void;
    dispose: () => void;
    resize: () => void;
  }>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    let isGone = false;
    const draw = () => chart.current?.setOption(optionOf(latest.current, box.current!), true);
    const sized = new ResizeObserver(() => chart.current?.resize());
    const themed = new MutationObserver(draw);
    const dark = window.matchMedia('(prefers-color-scheme: dark)');
    import('./echart.ts').then(({ init }) => {
      if (isGone) return;
      chart.current = init(box.current!, null, { renderer: 'svg' }) as never;
      draw();
      sized.observe(box.current!);
      themed.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
      dark.addEventListener('change', draw);
    }, setFailure);
    return () => {
      isGone = true;
      sized.disconnect();
      themed.disconnect();
      dark.removeEventListener('change', draw);
      chart.current?.dispose();
      chart.current = null;
    };
  }, []);
  useEffect(() => {
    chart.current?.setOption(optionOf(props, box.current!), true);
  });
  if (failure) throw failure;
  return (
    <figure className="chart">
      <figcaption>{props.title}</figcaption>
      <div ref={box} style={{ blockSize: heightPx }} role="img" aria-label={describe(props)} />
    </figure>
  );
}

/** The chart in words: the last value of each series. */
function describe({ title, series, format }: ChartProps): string {
  const texts = series.map(({ name, points }) => {
    const last = points.findLast(([, value]) => value !== null)?.[1];
    return `${name}: ${last === undefined || last === null ? 'no values' : format(last)}`;
  });
  return `${title}. ${texts.join(', ')}`;
}

function optionOf(props: ChartProps, element: HTMLElement): object {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const isOverTime = props.series.some(({ points }) => typeof points[0]?.[0] === 'number');
  const text = { color: style.color, fontFamily: style.fontFamily, fontSize: 12 };
  const line = { lineStyle: { color: colour('--line') } };
  return {
    animation: false,
    color: [colour('--chart-1'), colour('--chart-2'), colour('--chart-3'), colour('--chart-4')],
    textStyle: text,
    grid: { left: 8, right: 12, top: props.series.length > 1 ? 34 : 12, bottom: 4, containLabel: true },
    ...(props.series.length > 1 && { legend: { top: 0, left: 0, textStyle: text } }),
    tooltip: {
      trigger: 'axis',
      valueFormatter: (value: number | null) => (value === null ? '–' : props.format(value)),
      renderMode: 'richText',
    },
    xAxis: { type: isOverTime ? 'time' : 'category', axisLabel: { ...text, hideOverlap: true }, axisLine: line },
    yAxis: {
      type: 'value',
      min: 0,
      ...(props.max !== undefined && { max: props.max, interval: props.max / 4 }),
      axisLabel: { ...text, formatter: props.format },
      splitLine: line,
    },
    series: props.series.map(({ name, points }) => ({
      name,
      type: props.kind,
      data: points,
      showSymbol: points.length === 1,
      ...(props.isStacked && { stack: 'all', areaStyle: {} }),
      barMaxWidth: 28,
    })),
  };
}
