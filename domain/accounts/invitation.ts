/** How long the link to set a first password works. */
export const invitationSeconds = 7 * 24 * 3600;
