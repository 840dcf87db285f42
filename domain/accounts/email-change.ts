/** How long both links work, and the minimum time between two requests. */
export const emailChangeSeconds = 30 * 60;

/** Which of the two addresses a link is for. */
export type EmailSide = 'current' | 'new';
