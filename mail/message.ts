import type { Html } from '../domain/html.ts';

/** A mail as a template makes it. */
export interface MailContent {
  subject: string;
  text: string;
  html: Html;
}

/** A mail to one person. */
export interface MailMessage extends MailContent {
  to: { name: string; address: string };
  /** The same at each attempt, so that the receiving server can drop a repeated mail. Without `<`, `>` and `@`. */
  id: string;
}
