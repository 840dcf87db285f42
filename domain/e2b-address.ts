/** Where the API speaks the protocol of E2B's control plane. */
export const e2bPrefix = '/e2b';
