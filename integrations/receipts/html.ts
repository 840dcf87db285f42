import { createHash } from 'node:crypto';
import {
  amountText,
  quantityText,
  type Receipt,
  receiptFacts,
  receiptSums,
  receiptTitle,
  shownText,
} from '../../domain/billing/receipt.ts';
import { Html, html } from '../../domain/html.ts';

const style = `
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; background: #f3f4f6; color: #111827 }
main { max-width: 50em; margin: 5vh auto; padding: 2em 3em; background: #fff; border-radius: 8px }
h1 { font-size: 1.5em }
.issuer { white-space: pre-line; color: #4b5563 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2em 1.5em }
dt { color: #4b5563 }
dd { margin: 0; overflow-wrap: anywhere }
table { width: 100%; border-collapse: collapse; margin-top: 1.5em }
th, td { padding: .4em .5em; text-align: right; vertical-align: top; border-bottom: 1px solid #e5e7eb; font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere }
td:not(:first-child), tfoot td { white-space: nowrap }
tfoot td { border: 0 }
tfoot td:first-child { text-align: right }
.total { font-weight: bold }
@media print { body { background: #fff } main { margin: 0; padding: 0 } thead { display: table-header-group } tr { break-inside: avoid } }
`;

/** Allows only the page's own style. */
export const receiptPolicy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** An invoice as a page that needs no other file, so that readers can store it. */
export function receiptHtml(receipt: Receipt): string {
  const title = receiptTitle(receipt);
  const { currency } = receipt;
  const issuer = receipt.issuer.split('\n').slice(0, 10).map(shownText).join('\n');
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title} ${receipt.invoiceId}</title>
<style>${new Html(style)}</style>
</head>
<body>
<main>
<p class="issuer">${issuer}</p>
<h1>${title}</h1>
<dl>
${receiptFacts(receipt).map(([label, text]) => html`<dt>${label}</dt><dd><bdi>${text}</bdi></dd>\n`)}</dl>
<table>
<thead><tr><th scope="col">Description</th><th scope="col">Quantity</th><th scope="col">Unit price</th><th scope="col">Amount</th></tr></thead>
<tbody>
${receipt.lines.map(
  (line) =>
    html`<tr><td><bdi>${shownText(line.description)}</bdi></td><td>${quantityText(line.quantity)}</td><td>${amountText(line.unitPrice, currency)}</td><td>${amountText(line.amount, currency)}</td></tr>\n`,
)}</tbody>
<tfoot>
${receiptSums(receipt).map(
  ([label, amount]) =>
    html`<tr class="${label === 'Total' ? 'total' : 'sum'}"><td colspan="3">${label}</td><td>${amount}</td></tr>\n`,
)}</tfoot>
</table>
</main>
</body>
</html>
`;
  return page.text;
}
