// How the console is built: into the Python package, with relative addresses, so that it runs
// below any path. `npm run dev` serves the sources and a stand-in of the API (dev/).
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const outDir = process.env.KAFSCALE_UI_OUT ?? "../src/kafscale/console/static";

export default defineConfig(async ({ command }) => ({
  base: "./",
  plugins: [
    react(),
    ...(command === "serve" && !process.env.VITEST
      ? [(await import("./dev/stand-in.ts")).standIn()]
      : []),
  ],
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2023",
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
}));
