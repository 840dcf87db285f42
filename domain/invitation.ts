/** How long the link to a first password works. */
export const invitationSeconds = 7 * 24 * 3600;
