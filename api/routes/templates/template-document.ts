import { z } from 'zod';

/** The maximum bytes of a template's document in UTF-8. */
const maxDocumentBytes = 65_535;

/** Bytes of a body with the longest document, with every character escaped. */
export const documentBodyBytes = 512 * 1024;

export const documentSchema = z.object({
  template_id: z.string(),
  template_document: z.string().nullable().describe('Markdown'),
});

export const newDocument = z
  .string()
  .max(maxDocumentBytes)
  .refine((text) => Buffer.byteLength(text) <= maxDocumentBytes, `must have at most ${maxDocumentBytes} bytes`);
