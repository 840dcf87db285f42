/** The Temporal header with the id of the API's request that a message or an activity is about. */
export const requestIdHeader = 'platform-request-id';
