// Opens a final in h5web and prints as JSON what the page says: {"line": TEXT, "heatmap": TEXT}.
//
//   node look.mjs NODE_MODULES CHROMIUM FINAL SCREENSHOT
//
// The line is one frame's pattern, the heat map all frames'. The page is served on loopback, and asks no other network.
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const [modules, chromium, final, screenshot] = process.argv.slice(2);
const require = createRequire(path.join(modules, "look.mjs"));
const esbuild = require("esbuild");
const puppeteer = require("puppeteer-core");

const built = await esbuild.build({
  entryPoints: [fileURLToPath(new URL("app.jsx", import.meta.url))],
  nodePaths: [modules],
  bundle: true,
  format: "esm",
  outdir: "/",
  write: false,
  define: { "process.env.NODE_ENV": '"production"' },
});
const served = Object.fromEntries(built.outputFiles.map((file) => [file.path, file.contents]));
served["/"] = `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="app.css">
<style>html, body, #root { height: 100%; margin: 0 }</style>
<div id="root"></div><script type="module" src="app.js"></script>`;
served["/final.h5"] = fs.readFileSync(final);
const types = { "": "text/html", ".js": "text/javascript", ".css": "text/css" };
const server = http.createServer((request, response) => {
  const content = served[request.url];
  const type = types[path.extname(request.url)] ?? "application/octet-stream";
  response.writeHead(content ? 200 : 404, { "content-type": type }).end(content);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const browser = await puppeteer.launch({
  executablePath: chromium,
  // The page is our own. Without a GPU, WebGL is drawn by the CPU.
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"],
});
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1300, height: 850 });
  const read = () => page.evaluate(() => document.body.innerText);
  const waitFor = (text) => page.waitForFunction((text) => document.body.innerText.includes(text), { timeout: 60000 }, text);
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await waitFor("Intensity");
  const line = await read();
  await page.locator("::-p-text(NX Heatmap)").click();
  await page.waitForFunction((line) => document.body.innerText !== line, { timeout: 60000 }, line);
  await page.waitForSelector("canvas");
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const heatmap = await read();
  await page.screenshot({ path: screenshot });
  console.log(JSON.stringify({ line, heatmap }));
} finally {
  await browser.close();
  server.close();
}
