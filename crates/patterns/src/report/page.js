"use strict";
// A click on the head of a column sorts the table of final files by it; a second click reverses
// the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.rows[0].cells];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const text = (row) => row.cells[column].textContent;
    const compare = (one, two) => text(one).localeCompare(text(two), "en", { numeric: true });
    const rows = [...table.rows].slice(1).sort((one, two) => (down ? compare(two, one) : compare(one, two)));
    rows.forEach((row) => row.parentNode.append(row));
  }));
}
// The mean pattern of each final file: drag over a part to see it larger, double-click for the whole.
for (const data of document.querySelectorAll("script.pattern")) {
  const { x, y, error, x_label, y_label } = JSON.parse(data.textContent);
  const canvas = document.createElement("canvas");
  const readout = document.createElement("p");
  const hint = "Drag over a part of the pattern to zoom in, double-click to see all of it.";
  readout.className = "readout";
  readout.textContent = hint;
  data.after(canvas, readout);
  const [left, right, top, bottom] = [80, 10, 10, 45];
  const whole = [x[0], x[x.length - 1]];
  let range = whole;
  let start = null;
  const shown = () => x.map((_, bin) => bin).filter((bin) => x[bin] >= range[0] && x[bin] <= range[1]);
  const width = () => canvas.clientWidth - left - right;
  const toX = (pixel) => range[0] + ((pixel - left) / width()) * (range[1] - range[0]);
  const ticks = (low, high) => {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((digit) => digit * power >= rough);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, n) => Number(((first + n) * step).toPrecision(12)));
  };
  const draw = (pointer) => {
    const [wide, high, ratio] = [canvas.clientWidth, 320, window.devicePixelRatio || 1];
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "13px system-ui, sans-serif";
    const bins = shown().filter((bin) => y[bin] !== null);
    const ends = bins.flatMap((bin) => [y[bin] - (error[bin] || 0), y[bin] + (error[bin] || 0)]);
    let low = ends.reduce((one, two) => Math.min(one, two), Infinity);
    let most = ends.reduce((one, two) => Math.max(one, two), -Infinity);
    if (!(low < most)) [low, most] = Number.isFinite(low) ? [low - 1, low + 1] : [0, 1];
    const margin = (most - low) * 0.05;
    [low, most] = [low - margin, most + margin];
    const px = (value) => left + ((value - range[0]) / (range[1] - range[0])) * width();
    const py = (value) => high - bottom - ((value - low) / (most - low)) * (high - bottom - top);
    pen.strokeStyle = "#dedee2";
    pen.fillStyle = "#282830";
    pen.textAlign = "center";
    for (const tick of ticks(...range)) {
      pen.strokeRect(px(tick), top, 0, high - top - bottom);
      pen.fillText(tick, px(tick), high - bottom + 18);
    }
    pen.fillText(x_label, left + width() / 2, high - 6);
    pen.textAlign = "right";
    for (const tick of ticks(low, most)) {
      pen.strokeRect(left, py(tick), width(), 0);
      pen.fillText(tick, left - 6, py(tick) + 4);
    }
    pen.save();
    pen.translate(14, (high - bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(y_label, 0, 0);
    pen.restore();
    pen.lineWidth = 1.5;
    for (const [color, offset] of [["#a8c6e8", -1], ["#a8c6e8", 1], ["#1f569c", 0]]) {
      pen.strokeStyle = color;
      pen.beginPath();
      let isDown = false;
      for (const bin of shown()) {
        if (y[bin] === null) {
          isDown = false;
          continue;
        }
        const at = [px(x[bin]), py(y[bin] + offset * (error[bin] || 0))];
        if (isDown) pen.lineTo(...at);
        else pen.moveTo(...at);
        isDown = true;
      }
      pen.stroke();
    }
    if (start !== null && pointer !== undefined) {
      pen.fillStyle = "#1f569c33";
      pen.fillRect(start, top, pointer - start, high - top - bottom);
    }
    canvas.dataset.range = range.join(" ");
  };
  canvas.addEventListener("pointerdown", (event) => {
    start = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = toX(event.offsetX);
    const bins = shown();
    if (bins.length > 0) {
      const bin = bins.reduce((one, two) => (Math.abs(x[two] - at) < Math.abs(x[one] - at) ? two : one));
      const value = y[bin] === null ? "no value" : `${y[bin]}${error[bin] === null ? "" : ` ± ${error[bin]}`}`;
      readout.textContent = `${x_label} ${x[bin]}: ${value}`;
    }
    if (start !== null) draw(event.offsetX);
  });
  canvas.addEventListener("pointercancel", () => { start = null; draw(); });
  canvas.addEventListener("pointerup", (event) => {
    // The pointer may have been pressed elsewhere.
    if (start === null) return;
    const chosen = [toX(start), toX(event.offsetX)].sort((one, two) => one - two);
    if (Math.abs(event.offsetX - start) > 4 && x.filter((at) => at >= chosen[0] && at <= chosen[1]).length > 1) range = chosen;
    start = null;
    draw();
  });
  canvas.addEventListener("dblclick", () => {
    range = whole;
    readout.textContent = hint;
    draw();
  });
  window.addEventListener("resize", () => draw());
  draw();
}
