import type { Html } from '../../domain/html.ts';

/** The content of a mail, made by a template. */
export interface MailContent {
  subject: string;
  text: string;
  html: Html;
}

/** A mail to one person. */
export interface MailMessage extends MailContent {
  to: { name: string; address: string };
  /**
   * The same id at each attempt, so that the receiving server can drop a repeated mail. It contains no `<`, `>` and
   * `@`.
   */
  id: string;
}
