import { defineConfig } from "vitest/config";

// One broker and one browser for all files, one after the other.
export default defineConfig({
  test: {
    include: ["tests/browser/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
