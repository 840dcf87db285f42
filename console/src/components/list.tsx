import { type ReactNode, useRef, useState } from 'react';
import type { DataOf, OperationId, QueryOf } from '../api/client.ts';
import type { Operations } from '../api/generated.ts';
import { useRead } from '../api/queries.ts';
import { formatCount } from '../format/numbers.ts';
import { Empty, Loaded } from './loaded.tsx';
import { usePageSearch } from './page-search.ts';

/** Operations whose reply is a page of a list. */
export type ListOperation = {
  [Id in OperationId]: Operations[Id]['data'] extends { pagination: Pagination } ? Id : never;
}[OperationId];

interface Pagination {
  page: number;
  limit: number;
  total: number;
  total_pages: number;
  total_is_capped?: true;
  next_cursor: string | null;
}

export interface Column<Item> {
  label: string;
  cell: (item: Item) => ReactNode;
  /** The field by which the API sorts. */
  sort?: string;
  isNumber?: boolean;
}

/** A field above a list. Its value stands in the address and in the request. */
export interface Filter {
  name: string;
  label: string;
  /** Absent: any text. */
  options?: readonly (readonly [value: string, label: string])[];
  /** What the API lists without this filter. Absent: all. */
  without?: string;
  /** The value is a day, such as 2026-05-04. */
  isDay?: true;
}

export interface ListProps<Id extends ListOperation, Item> {
  operation: Id;
  path?: object;
  /** Sent beside what the address says. */
  query?: Partial<QueryOf<Id>>;
  items: (data: DataOf<Id>) => readonly Item[];
  keyOf: (item: Item) => string;
  columns: readonly Column<Item>[];
  filters?: readonly Filter[];
  /** Shown for a list without items and without filters. */
  empty: ReactNode;
  emptyAction?: ReactNode;
  /** What can be done with the chosen items. */
  batch?: (chosen: readonly string[], done: () => void) => ReactNode;
  /** How often the list is read again, if no event tells that it is old. */
  everyMs?: number;
  caption: string;
}

const pageSize = 50;

/** A list that the API pages, filters and sorts. The address of the page says which part is shown. */
export function List<Id extends ListOperation, Item>(props: ListProps<Id, Item>) {
  const [search, change] = usePageSearch();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const { filters = [], columns, batch } = props;
  const asked = filters.filter(({ name }) => search[name]);
  const query = {
    limit: pageSize,
    page: search.page,
    sort_by: search.sort_by,
    sort_order: search.sort_order,
    ...Object.fromEntries(asked.map(({ name }) => [name, search[name]])),
    ...props.query,
  };
  const { everyMs } = props;
  const read = useRead(props.operation, { path: props.path, query } as never, everyMs === undefined ? {} : { everyMs });
  const choose = (keys: readonly string[], isChosen: boolean) => {
    const next = new Set(chosen);
    for (const key of keys) isChosen ? next.add(key) : next.delete(key);
    setChosen(next);
  };
  return (
    <div className="list">
      {filters.length > 0 && <Filters filters={filters} />}
      <Loaded read={read}>
        {(data) => {
          const items = props.items(data);
          const keys = items.map(props.keyOf);
          const { pagination } = data as { pagination: Pagination };
          if (items.length === 0) {
            if (asked.length === 0 && !search.page) return <Empty action={props.emptyAction}>{props.empty}</Empty>;
            return (
              <Empty
                action={
                  <button
                    type="button"
                    onClick={() =>
                      change(Object.fromEntries(['page', ...asked.map(({ name }) => name)].map((k) => [k, ''])))
                    }
                  >
                    Show all
                  </button>
                }
              >
                Nothing matches.
              </Empty>
            );
          }
          const chosenHere = keys.filter((key) => chosen.has(key));
          return (
            <>
              {batch && chosenHere.length > 0 && (
                <div className="batch">
                  <span>{formatCount(chosenHere.length)} chosen</span>
                  {batch(chosenHere, () => setChosen(new Set()))}
                </div>
              )}
              <div className={read.isPlaceholderData ? 'table-frame old' : 'table-frame'}>
                <table>
                  <caption className="hidden">{props.caption}</caption>
                  <thead>
                    <tr>
                      {batch && (
                        <th scope="col" className="choice">
                          <input
                            type="checkbox"
                            aria-label="Choose all on this page"
                            checked={chosenHere.length === keys.length}
                            onChange={(event) => choose(keys, event.target.checked)}
                          />
                        </th>
                      )}
                      {columns.map((column) => (
                        <Heading key={column.label} column={column} />
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((item, index) => (
                      <tr key={keys[index]}>
                        {batch && (
                          <td className="choice">
                            <input
                              type="checkbox"
                              aria-label={`Choose ${keys[index]}`}
                              checked={chosen.has(keys[index]!)}
                              onChange={(event) => choose([keys[index]!], event.target.checked)}
                            />
                          </td>
                        )}
                        {columns.map(({ label, cell, isNumber }) => (
                          <td key={label} data-label={label} className={isNumber ? 'number' : undefined}>
                            {cell(item)}
                          </td>
                        ))}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              <Pages pagination={pagination} onPage={(page) => change({ page: page === 1 ? '' : String(page) })} />
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

function Heading<Item>({ column }: { column: Column<Item> }) {
  const [search, change] = usePageSearch();
  const { label, sort, isNumber } = column;
  const className = isNumber ? 'number' : undefined;
  if (!sort) {
    return (
      <th scope="col" className={className}>
        {label}
      </th>
    );
  }
  const isSorted = search.sort_by === sort;
  const isAscending = isSorted && search.sort_order === 'asc';
  return (
    <th scope="col" className={className} aria-sort={isSorted ? (isAscending ? 'ascending' : 'descending') : 'none'}>
      <button
        type="button"
        className="sort"
        onClick={() => change({ sort_by: sort, sort_order: isAscending || !isSorted ? 'desc' : 'asc', page: '' })}
      >
        {label}
        <span aria-hidden="true">{isSorted ? (isAscending ? ' ↑' : ' ↓') : ''}</span>
      </button>
    </th>
  );
}

/** Fields whose values stand in the address. */
export function Filters(props: { filters: readonly Filter[] }) {
  const [search, change] = usePageSearch();
  return (
    <search className="filters">
      {props.filters.map(({ name, label, options, without, isDay }) => (
        <div key={name}>
          <label htmlFor={`filter-${name}`}>{label}</label>
          {options ? (
            <select
              id={`filter-${name}`}
              value={search[name] ?? ''}
              onChange={(event) => change({ [name]: event.target.value, page: '' })}
            >
              <option value="">{without ?? 'All'}</option>
              {options.map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          ) : (
            <TextFilter
              id={`filter-${name}`}
              type={isDay ? 'date' : 'search'}
              value={search[name] ?? ''}
              onChange={(value) => change({ [name]: value, page: '' })}
            />
          )}
        </div>
      ))}
    </search>
  );
}

/** A text is sent when the person has stopped writing for this time. */
const writingMs = 300;

function TextFilter(props: { id: string; type: 'search' | 'date'; value: string; onChange: (value: string) => void }) {
  const [text, setText] = useState(props.value);
  const sent = useRef(props.value);
  const timer = useRef<number>(undefined);
  // The address also changes by itself, for example by the browser's back button.
  if (props.value !== sent.current) {
    sent.current = props.value;
    setText(props.value);
  }
  const write = (value: string) => {
    setText(value);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      sent.current = value.trim();
      props.onChange(sent.current);
    }, writingMs);
  };
  return <input id={props.id} type={props.type} value={text} onChange={(event) => write(event.target.value)} />;
}

function Pages(props: { pagination: Pagination; onPage: (page: number) => void }) {
  const { page, limit, total, total_pages: pages, total_is_capped: isCapped, next_cursor: next } = props.pagination;
  const first = (page - 1) * limit + 1;
  const totalText = `${formatCount(total)}${isCapped ? ' or more' : ''}`;
  return (
    <nav className="pages" aria-label="Pages of the list">
      <span>
        {formatCount(first)}–{formatCount(Math.min(page * limit, Math.max(total, first)))} of {totalText}
      </span>
      {(pages > 1 || page > 1) && (
        <>
          <button type="button" disabled={page === 1} onClick={() => props.onPage(page - 1)}>
            Previous
          </button>
          <button type="button" disabled={next === null} onClick={() => props.onPage(page + 1)}>
            Next
          </button>
        </>
      )}
    </nav>
  );
}
