// What the browser loads for the start page, gzipped, is at most BUDGET bytes. usage: node budget.mjs (beside dist/)
import { readFileSync, readdirSync } from "node:fs";

const BUDGET = 80_000;
const html = readFileSync("dist/index.html", "utf8");
const first = new Set([...html.matchAll(/(?:src|href)="\.\/(ui\/[^"]+\.(?:js|css))"/g)].map((match) => match[1]));
let sum = 0;
for (const name of [...first].sort()) {
  const bytes = readFileSync(`dist/${name}.gz`).length;
  sum += bytes;
  console.log(`${String(bytes).padStart(8)}  ${name}`);
}
const all = readdirSync("dist/ui").filter((name) => name.endsWith(".gz")).reduce((bytes, name) => bytes + readFileSync(`dist/ui/${name}`).length, 0);
console.log(`${String(sum).padStart(8)}  of ${BUDGET}, first load; ${all} with every page`);
if (first.size < 2 || sum > BUDGET) {
  console.error(`the first load is ${sum} bytes in ${first.size} files: at most ${BUDGET} in two or more`);
  process.exit(1);
}
