/** The maximum number of processes and threads in one sandbox. */
export const processLimit = 1024;
