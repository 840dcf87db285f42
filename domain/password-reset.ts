/** How long a link to a new password works. */
export const passwordResetSeconds = 30 * 60;
