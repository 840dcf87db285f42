import { defineConfig } from 'vite';

/** The API of a platform that runs on this machine, for `vite dev`. */
const api = process.env.PLATFORM_URL ?? 'http://127.0.0.1:7080';

export default defineConfig({
  // Addresses of files are relative to `<base>`, which the server writes.
  base: './',
  server: { host: '127.0.0.1', proxy: { '/v1': { target: api, changeOrigin: true } } },
  build: {
    target: 'es2023',
    // Small files become files of their own, because the content security policy allows no `data:` scripts or styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      // Libraries mark modules for servers; a bundle for the browser has no use for that.
      onLog: (level, log, report) => log.code !== 'MODULE_LEVEL_DIRECTIVE' && report(level, log),
    },
  },
});
