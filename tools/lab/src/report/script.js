// The values under the pointer. The page is complete without it.
const tip = document.getElementById("tip");
for (const svg of document.querySelectorAll("svg[data-series]")) {
  const series = JSON.parse(svg.dataset.series);
  const [x0, x1, left, right] = svg.dataset.scale.split(" ").map(Number);
  const cross = svg.querySelector(".cross");
  const format = (v) => v.toLocaleString("en", { maximumFractionDigits: v < 10 ? 2 : 0 });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const x = x0 + ((at - left) / (right - left)) * (x1 - x0);
    if (x < x0 || x > x1) return leave();
    cross.style.visibility = "visible";
    cross.setAttribute("x1", at);
    cross.setAttribute("x2", at);
    tip.replaceChildren(Object.assign(document.createElement("b"), { textContent: `${x.toFixed(2)} s` }));
    for (const line of series) {
      const near = line.x.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(line.x[best] - x) ? i : best), 0);
      if (!line.x.length || x < line.x[0] - 0.2 * (x1 - x0) || x > line.x.at(-1) + 0.02 * (x1 - x0)) continue;
      const row = document.createElement("span");
      const key = Object.assign(document.createElement("i"), { className: `key ${line.class}` });
      row.append(key, `${line.name}: ${format(line.y[near])}`);
      tip.append(row);
    }
    tip.style.display = "block";
    const toLeft = event.clientX > innerWidth - tip.offsetWidth - 30;
    tip.style.left = `${event.clientX + (toLeft ? -tip.offsetWidth - 14 : 14)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  const leave = () => {
    tip.style.display = "none";
    cross.style.visibility = "hidden";
  };
  svg.addEventListener("pointerleave", leave);
}
