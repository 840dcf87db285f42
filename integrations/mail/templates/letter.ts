import { html } from '../../../domain/html.ts';
import type { MailContent } from '../message.ts';

/** The parts of every mail of the platform. */
export interface Letter {
  subject: string;
  /** The reader's name. */
  greets: string;
  /** Plain text, one paragraph per item. */
  before: readonly string[];
  button?: { label: string; url: string };
  after: readonly string[];
}

/** The letter as text and as simple HTML with the same content. */
export function writeLetter({ subject, greets, before, button, after }: Letter): MailContent {
  const greeting = `Hello ${greets},`;
  const link = button ? [`${button.label}:\n${button.url}`] : [];
  const paragraph = (text: string) => html`<p>${text}</p>\n`;
  return {
    subject,
    text: `${[greeting, ...before, ...link, ...after].join('\n\n')}\n`,
    html: html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${subject}</title></head>
<body style="font: 16px/1.5 sans-serif; max-width: 36em; margin: 2em auto">
${[greeting, ...before].map(paragraph)}${
  button
    ? html`<p><a href="${button.url}" style="display: inline-block; padding: .6em 1.2em; background: #1a56db; color: #fff; border-radius: 4px; text-decoration: none">${button.label}</a></p>
<p style="font-size: 13px">Or open this address: ${button.url}</p>
`
    : null
}${after.map(paragraph)}</body></html>
`,
  };
}
