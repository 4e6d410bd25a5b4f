// How the best time of a target came down: times on a logarithmic scale over the time spent searching.

import { svg } from "./element.js";
import { seconds } from "./units.js";

const [WIDTH, HEIGHT] = [760, 280];
const [LEFT, RIGHT, TOP, BOTTOM] = [74, 16, 12, 40];

export function convergence({ points, native_s, limit_s, name }) {
  const values = points.flatMap(([, median, best]) => [median, best]).concat([native_s, limit_s]);
  const finite = values.filter((value) => value > 0);
  const [low, high] = [0.85 * Math.min(...finite), 1.15 * Math.max(...finite)];
  const end = Math.max(...points.map(([at]) => at), 1e-3);
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * at) / end;
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * Math.log(value / low)) / Math.log(high / low);
  const line = (value, kind) => value > 0 ? svg("path", { class: kind, d: `M${LEFT} ${y(value)}H${WIDTH - RIGHT}` }) : null;
  const text = (at, top, words, anchor) => svg("text", { x: at, y: top, "text-anchor": anchor }, words);
  const grid = ticks(low, high).map((value) => [
    svg("path", { class: "grid", d: `M${LEFT} ${y(value)}H${WIDTH - RIGHT}` }),
    text(LEFT - 8, y(value) + 4, seconds(value), "end"),
  ]);
  const best = points.filter(([, , best]) => best > 0);
  const steps = best.map(([at, , value], i) => (i === 0 ? `M${x(at)} ${y(value)}` : `H${x(at)}V${y(value)}`));
  if (best.length > 0) steps.push(`H${x(end)}`);
  const words = `${name}: from ${seconds(best[0]?.[2])} to ${seconds(best.at(-1)?.[2])} in ${seconds(end)} of searching`;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": words },
    grid.flat(),
    svg("path", { class: "axis", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }),
    text(LEFT, HEIGHT - 22, "0", "middle"), text(WIDTH - RIGHT, HEIGHT - 22, seconds(end), "end"),
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "time spent searching", "middle"),
    line(native_s, "native"), line(limit_s, "limit"),
    points.filter(([, median]) => median > 0).map(([at, median]) => svg("circle", { class: "trial", cx: x(at), cy: y(median), r: 2.5 })),
    svg("path", { class: "best", d: steps.join("") }));
}

// 1, 2 and 5 times powers of ten; of many, the powers alone.
export function ticks(low, high) {
  const exponents = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) exponents.push(e);
  const all = (steps) => exponents.flatMap((e) => steps.map((step) => step * 10 ** e)).filter((v) => v >= low && v <= high);
  const fine = all([1, 2, 5]);
  return fine.length > 8 ? all([1]) : fine;
}
