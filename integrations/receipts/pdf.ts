import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { buffer } from 'node:stream/consumers';
import PDFDocument from 'pdfkit';
import {
  amountText,
  quantityText,
  type Receipt,
  receiptFacts,
  receiptSums,
  receiptTitle,
  shownText,
} from '../../domain/billing/receipt.ts';

/**
 * DejaVu has Latin, Greek, Cyrillic, Armenian, Georgian, Hebrew and Arabic letters. Other letters are shown as boxes.
 */
const fontFolder = 'dejavu-fonts-ttf/ttf';
const { resolve } = createRequire(import.meta.url);
const fonts = {
  regular: readFileSync(resolve(`${fontFolder}/DejaVuSans.ttf`)),
  bold: readFileSync(resolve(`${fontFolder}/DejaVuSans-Bold.ttf`)),
};

const margin = 50;
const gap = 8;

interface Column {
  label: string;
  width: number;
  align: 'left' | 'right';
}

/** The columns fill an A4 page between its margins: 495 points. */
const columns: readonly Column[] = [
  { label: 'Description', width: 195, align: 'left' },
  { label: 'Quantity', width: 95, align: 'right' },
  { label: 'Unit price', width: 105, align: 'right' },
  { label: 'Amount', width: 100, align: 'right' },
];

/** The columns of the sums below: the label and the amount. */
const sumColumns: readonly Column[] = [
  { label: '', width: 395, align: 'right' },
  { label: '', width: 100, align: 'right' },
];

/**
 * An invoice as a PDF, with as many pages as its lines need. The same invoice gives the same bytes. A page takes tens of
 * milliseconds, so it belongs into a thread.
 */
export async function receiptPdf(receipt: Receipt): Promise<Buffer> {
  const title = receiptTitle(receipt);
  const info = { Title: `${title} ${receipt.invoiceId}`, CreationDate: receipt.issuedAt };
  const document = new PDFDocument({ size: 'A4', margin, bufferPages: true, info, lang: 'en' });
  const whole = buffer(document);
  document.registerFont('regular', fonts.regular).registerFont('bold', fonts.bold);
  document.font('regular').fontSize(9).fillColor('#4b5563');
  for (const line of receipt.issuer.split('\n').slice(0, 10)) document.text(shownText(line));
  document.moveDown().font('bold').fontSize(18).fillColor('#111827').text(title).moveDown(0.5).fontSize(9);
  for (const [label, text] of receiptFacts(receipt)) {
    const { y } = document;
    document.font('regular').fillColor('#4b5563').text(label, margin, y, { width: 80 });
    document.fillColor('#111827').text(text, margin + 90, y, { width: 400 });
  }
  document.moveDown();
  header(document);
  const { currency } = receipt;
  for (const line of receipt.lines) {
    row(document, [
      ...[shownText(line.description), quantityText(line.quantity)],
      ...[amountText(line.unitPrice, currency), amountText(line.amount, currency)],
    ]);
  }
  rule(document);
  for (const [label, amount] of receiptSums(receipt)) {
    document.font(label === 'Total' ? 'bold' : 'regular');
    row(document, [label, amount], sumColumns);
  }
  numberPages(document, receipt.invoiceId);
  document.end();
  return whole;
}

type Document = InstanceType<typeof PDFDocument>;

/** The titles of the columns, at the top of each page. */
function header(document: Document): void {
  document.font('bold');
  place(
    document,
    columns.map(({ label }) => label),
  );
  document.font('regular');
  rule(document);
}

/** Draws cells in a row, on the next page if this one is too full for them. */
function row(document: Document, cells: readonly string[], of = columns): void {
  const heights = cells.map((cell, index) => document.heightOfString(cell, { width: of[index]!.width - gap }));
  const bottom = document.page.height - margin - 20;
  if (document.y + Math.max(...heights) > bottom) {
    document.addPage();
    header(document);
  }
  place(document, cells, of);
}

function place(document: Document, cells: readonly string[], of = columns): void {
  const top = document.y;
  let [left, bottom] = [margin, top];
  for (const [index, cell] of cells.entries()) {
    const { width, align } = of[index]!;
    document.text(cell, align === 'right' ? left + gap : left, top, { width: width - gap, align });
    left += width;
    bottom = Math.max(bottom, document.y);
  }
  document.x = margin;
  document.y = bottom + 3;
}

function rule(document: Document): void {
  const { y } = document;
  document
    .moveTo(margin, y)
    .lineTo(document.page.width - margin, y)
    .lineWidth(0.5)
    .stroke('#9ca3af');
  document.y = y + 4;
}

function numberPages(document: Document, invoiceId: string): void {
  const { start, count } = document.bufferedPageRange();
  document.font('regular').fontSize(8).fillColor('#4b5563');
  for (let page = start; page < start + count; page++) {
    document.switchToPage(page);
    // The text is below the margin, where it would otherwise begin a new page.
    document.page.margins.bottom = 0;
    const text = `${invoiceId}   ${page - start + 1} / ${count}`;
    document.text(text, margin, document.page.height - margin, { width: 495, align: 'right', lineBreak: false });
  }
}
