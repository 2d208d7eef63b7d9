// How the page is built: hashed names below ui/, each text also as .gz and .br, relative addresses (the daemon may be served below any path).
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    closeBundle() {
      const folder = join(import.meta.dirname, "dist", "ui");
      for (const name of readdirSync(folder)) {
        const bytes = readFileSync(join(folder, name));
        writeFileSync(join(folder, `${name}.gz`), gzipSync(bytes, { level: 9 }));
        writeFileSync(join(folder, `${name}.br`), brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
      }
    },
  };
}

// `npm run dev`: the page from here, everything else from a daemon (PIPELINED_URL, PIPELINED_TOKEN).
const daemon = process.env["PIPELINED_URL"];
const token = process.env["PIPELINED_TOKEN"];
const proxy = daemon
  ? { "/api": { target: daemon, changeOrigin: true, ...(token ? { headers: { Authorization: `Bearer ${token}` } } : {}) } }
  : undefined;

export default defineConfig({
  base: "./",
  plugins: [compressed()],
  build: { assetsDir: "ui", target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  test: { testTimeout: 60_000 }, // a busy machine is no failure
  ...(proxy ? { server: { proxy } } : {}),
});
