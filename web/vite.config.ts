// Builds the page into hub/page/: one document, one script, one style, each asset named by what is in it.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  cacheDir: "../node_modules/.vite",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    outDir: "../hub/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 400,
  },
  server: {
    // `npm run dev`: the page from its sources, the data from a hub on its usual port.
    proxy: { "^/(api|login|logout)": { target: "http://127.0.0.1:8470", changeOrigin: true } },
  },
});
