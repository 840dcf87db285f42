/** The build bundles imported style sheets into the page's style sheet. */
declare module '*.css';
