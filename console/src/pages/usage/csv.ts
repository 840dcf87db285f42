type CsvCell = string | number | null;

/** A text with which a spreadsheet would begin a formula, also after blanks and in wide letters. */
const formula = /^[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠]/u;
const special = /[",;\r\n\t]/;

/**
 * A table as CSV, as RFC 4180 describes it. Numbers have a point and all their digits. Texts that a spreadsheet would
 * read as a formula get an apostrophe before them.
 */
export function toCsv(rows: readonly (readonly CsvCell[])[]): string {
  return rows.map((row) => `${row.map(cellOf).join(',')}\r\n`).join('');
}

function cellOf(cell: CsvCell): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return String(cell);
  const text = formula.test(cell) ? `'${cell}` : cell;
  return special.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Longer than a browser needs to begin a download. */
const keptMs = 60_000;

/** Saves a CSV as a file. The mark at its begin tells spreadsheets that it is UTF-8. */
export function saveCsv(fileName: string, csv: string): void {
  const address = URL.createObjectURL(new Blob(['\u{feff}', csv], { type: 'text/csv;charset=utf-8' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = fileName;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(address), keptMs);
}
