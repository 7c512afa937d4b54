// Opens a report and prints as JSON what it shows before and after clicks:
//
//   node look.mjs NODE_MODULES CHROMIUM REPORT SCREENSHOT
//
// Prints the rows of the table of finals as they are and sorted by integrated frames in both directions, the range of the first pattern before and
// after a drag and after a double click, what a pointer in the middle of the pattern shows, errors of scripts, and the text without scripts.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, chromium, report, screenshot] = process.argv.slice(2);
const puppeteer = createRequire(path.join(modules, "look.mjs"))("puppeteer-core");
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
try {
  const page = await browser.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) errors.push(`asks for ${request.url()}`);
  });
  await page.setViewport({ width: 1200, height: 900 });
  await page.goto(pathToFileURL(report).href);
  const rows = () =>
    page.$eval("table.sortable", (table) => [...table.rows].slice(1).map((row) => [...row.cells].map((cell) => cell.textContent)));
  const first = await rows();
  const head = await page.$("table.sortable th:nth-child(5)");
  await head.click();
  const ascending = await rows();
  await head.click();
  const descending = await rows();
  await page.screenshot({ path: screenshot });
  const canvas = await page.$("canvas");
  await canvas.scrollIntoView();
  const box = await canvas.boundingBox();
  const range = () => canvas.evaluate((canvas) => canvas.dataset.range.split(" ").map(Number));
  const whole = await range();
  const y = box.y + 100;
  await page.mouse.move(box.x + box.width * 0.4, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, y);
  await page.mouse.up();
  const zoomed = await range();
  await page.mouse.move(box.x + box.width * 0.5, y);
  const readout = await page.$eval(".readout", (readout) => readout.textContent);
  await page.screenshot({ path: screenshot.replace(".png", "-pattern.png") });
  await page.mouse.click(box.x + box.width * 0.5, y, { count: 2 });
  const again = await range();
  const lost = await page.$$eval("tr.lost td", (cells) => cells.map((cell) => [cell.textContent, getComputedStyle(cell).color]));
  await page.setJavaScriptEnabled(false);
  await page.reload();
  const text = await page.evaluate(() => document.body.innerText);
  const pictures = await page.$$eval("img", (images) => images.filter((image) => image.naturalWidth === 1200).length);
  console.log(JSON.stringify({ first, ascending, descending, whole, zoomed, readout, again, lost, errors, text, pictures }));
} finally {
  await browser.close();
}
