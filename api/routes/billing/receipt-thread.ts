import type { Receipt } from '../../../domain/billing/receipt.ts';
import { receiptPdf } from '../../../integrations/receipts/pdf.ts';
import { makeInThread } from '../../low-priority-thread.ts';

/** The thread that draws one receipt. */
await makeInThread<Receipt>(receiptPdf);
