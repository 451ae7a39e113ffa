import { defineConfig } from "vitest/config";

// Relative addresses, so that the page works below any path; nothing inline, as the policy that it is served with demands.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    outDir: "../src/leveret/management/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  test: { include: ["tests/unit/**/*.test.ts", "tests/unit/**/*.test.tsx"] },
});
