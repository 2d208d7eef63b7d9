// A browser that obeys lines of JSON: {"do": "goto", …} in, {"ok": …} or {"error": …} out, one line each. The tests are in Python
// (browser.py), because they own the daemon. usage: node driver.mjs CHROMIUM FOLDER, whose node_modules has what package.json names
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";

const require = createRequire(join(process.argv[3], "package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const STEP_MS = 30_000;

let browser, context, page;
const held = []; // requests without an answer
let complaints = []; // what the console and the policy complained of

async function open({ width, height, theme, motion = "reduce" }) {
  await context?.close();
  context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: motion, bypassCSP: false, timezoneId: "UTC" });
  context.setDefaultTimeout(STEP_MS);
  page = await context.newPage();
  complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // a request that is answered with an error is no fault of the page
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) complaints.push(message.text());
  });
}

// Waits until an expression is true. It is asked from outside: within the page its policy forbids to evaluate text.
async function until(js) {
  const end = Date.now() + STEP_MS;
  for (;;) {
    const value = await page.evaluate(js).catch((error) => {
      if (!/context was destroyed|navigation/i.test(String(error))) throw error; // the next page is on its way
      return null;
    });
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${STEP_MS} ms for: ${js}; the page shows ${await page.locator("body").innerText()}`);
    await new Promise((done) => setTimeout(done, 30));
  }
}

// Nothing is being loaded: what the page shows now is what it has to say.
async function settled() {
  await until("!document.querySelector('.skeleton') && document.querySelector('h1') !== null");
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

// Taken again until two in a row are equal: headless Chromium may leave a tile unpainted.
async function picture({ file, whole = false }) {
  let before;
  for (let i = 0; i < 6; i++) {
    const now = await page.screenshot({ fullPage: whole, animations: "disabled", caret: "hide" });
    if (before?.equals(now)) break;
    before = now;
  }
  writeFileSync(file, before);
  return file;
}

// axe runs in a world of its own, so that the page's policy stays as it is.
async function axe() {
  const session = await context.newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  await session.send("Runtime.evaluate", { expression: AXE, contextId: executionContextId });
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    expression: `axe.run({resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map((n) => n.html + " — " + n.failureSummary)}))))`,
    contextId: executionContextId, awaitPromise: true, returnByValue: true,
  });
  await session.detach();
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return JSON.parse(result.value);
}

const COMMANDS = {
  open,
  goto: async ({ url }) => {
    const response = await page.goto(url, { waitUntil: "load" });
    return { status: response?.status() };
  },
  // requests that are held are neither answered nor refused until they are blocked or released
  hold: ({ at }) => context.route(at, (route) => void held.push(route)),
  block: async ({ at }) => {
    await context.route(at, (route) => route.abort());
    await Promise.all(held.splice(0).map((route) => route.abort()));
  },
  unblock: ({ at }) => context.unroute(at),
  release: async ({ at }) => {
    await Promise.all(held.splice(0).map((route) => route.continue()));
    await context.unroute(at);
  },
  settled,
  picture,
  axe,
  eval: ({ js }) => page.evaluate(js),
  press: ({ key, then = [] }) => Promise.all([key, ...then].map((one) => page.keyboard.press(one))), // none waits for the one before it
  type: ({ text }) => page.keyboard.type(text),
  click: ({ at }) => page.locator(at).first().click(),
  fill: ({ at, text }) => page.locator(at).first().fill(text),
  pick: ({ at, files }) => page.locator(at).first().setInputFiles(files),
  text: ({ at }) => page.locator(at).first().innerText(),
  wait: ({ at, state = "visible" }) => page.locator(at).first().waitFor({ state }),
  waitfor: ({ js }) => until(js),
  url: () => page.url(),
  complaints: () => complaints,
};

browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"] });
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const command = JSON.parse(line);
    answer = { ok: (await COMMANDS[command.do](command)) ?? null };
  } catch (error) {
    answer = { error: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
