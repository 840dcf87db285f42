import type { Receipt } from '../domain/billing/receipt.ts';
import { receiptPdf } from '../receipts/pdf.ts';
import { makeBytes } from './low-priority-thread.ts';

/** The thread that draws one receipt. */
await makeBytes<Receipt>(receiptPdf);
