/** How long both links work, and how long the next request has to wait. */
export const emailChangeSeconds = 30 * 60;

/** Which of the two addresses a link is for. */
export type EmailSide = 'current' | 'new';
