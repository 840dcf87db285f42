/** How long the link to set a new password works. */
export const passwordResetSeconds = 30 * 60;
