// How a link was since the daemon's start: rate both ways and round trip over time, plan changes as marks.

import { element, framed, svg } from "./element.js";
import { clock, count, rate, seconds } from "./units.js";
import { ticks } from "./chart.js";

// As wide as there is room for, so that texts keep their size.
const [MIN_WIDTH, MAX_WIDTH] = [320, 900];
const [LEFT, RIGHT] = [92, 16];
const [RATE_TOP, RATE_HEIGHT, TRIP_TOP, TRIP_HEIGHT, HEIGHT] = [26, 130, 190, 70, 292];

// A sample: time, rate there, rate back, round trip.
export function past({ samples, plans }, title, room) {
  const width = Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, room));
  if (samples.length === 0) {
    return [element("h3", {}, `History: ${title}`), element("p", { class: "note" }, "Not measured since this daemon was started; its history begins with the next measurement.")];
  }
  const times = samples.map(([at]) => at);
  const marks = plans.filter(({ unix_s }) => unix_s >= times[0] - 600);
  const start = Math.min(times[0], ...marks.map(({ unix_s }) => unix_s));
  // What was measured last stands; the browser's clock may be another one.
  const end = Math.max(Date.now() / 1000, times.at(-1), start + 1, ...marks.map(({ unix_s }) => unix_s));
  const x = (at) => LEFT + ((width - LEFT - RIGHT) * (at - start)) / (end - start);
  const rates = panel(samples.flatMap(([, there, back]) => [there, back]), RATE_TOP, RATE_HEIGHT, width, rate, 8);
  const trips = panel(samples.map((sample) => sample[3]), TRIP_TOP, TRIP_HEIGHT, width, seconds, 1);
  const words = `${title}: rate and round trip from ${clock(start)} to ${clock(end)}; the table below says the same`;
  const text = (at, top, anchor, words) => svg("text", { x: at, y: top, "text-anchor": anchor }, words);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart past", role: "img", "aria-label": words },
    rates.frame, trips.frame,
    marks.map((mark) => svg("g", { class: "mark" }, svg("title", {}, `${clock(mark.unix_s)} ${mark.target}: ${mark.plan}`),
      svg("path", { d: `M${x(mark.unix_s)} ${RATE_TOP}V${TRIP_TOP + TRIP_HEIGHT}` }))),
    rates.line(samples, 1, x, end, "there"), rates.line(samples, 2, x, end, "back"), trips.line(samples, 3, x, end, "trip"),
    text(LEFT, RATE_TOP - 9, "start", "rate, fastest pair of nodes"), text(LEFT, TRIP_TOP - 9, "start", "round trip"),
    text(LEFT, HEIGHT - 8, "start", clock(start)), text(width - RIGHT, HEIGHT - 8, "end", clock(end)));
  const legend = element("p", { class: "legend" }, element("span", { class: "swatch there" }), " there ",
    element("span", { class: "swatch back" }), " back ", element("span", { class: "swatch trip" }), " round trip ",
    element("span", { class: "swatch mark" }), " a target of this group got another plan");
  return [element("h3", {}, `History: ${title}`), chart, legend, tables(samples, marks)];
}

// A logarithmic scale with lines across, at round numbers of the unit that is shown; what nothing limits is left out.
function panel(values, top, height, width, text, unit) {
  const known = values.filter((value) => value > 0);
  const [low, high] = known.length === 0 ? [0.5, 2] : [Math.min(...known) / 2, Math.max(...known) * 2];
  const y = (value) => top + height - (height * Math.log(value / low)) / Math.log(high / low);
  const across = (value) => svg("path", { class: "grid", d: `M${LEFT} ${y(value)}H${width - RIGHT}` });
  const name = (value) => svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, text(value));
  const shown = known.length === 0 ? [] : thinned(ticks(unit * low, unit * high).map((value) => value / unit), height / 22);
  return {
    frame: [shown.map((value) => [across(value), name(value)]), svg("path", { class: "axis", d: `M${LEFT} ${top}V${top + height}H${width - RIGHT}` })],
    line(samples, column, x, end, kind) {
      const points = samples.filter((sample) => sample[column] > 0).map((sample) => [x(sample[0]), y(sample[column])]);
      if (points.length === 0) return null;
      const steps = points.map(([px, py], i) => (i === 0 ? `M${px} ${py}` : `H${px}V${py}`)).join("");
      return svg("g", { class: kind }, svg("path", { class: "line", d: `${steps}H${x(end)}` }),
        points.map(([cx, cy]) => svg("circle", { cx, cy, r: 2.5 })));
    },
  };
}

const thinned = (values, most) => values.filter((_, i) => i % Math.ceil(values.length / most) === 0);

function tables(samples, marks) {
  const measured = samples.toReversed().map(([at, there, back, trip]) => [clock(at), rate(there), rate(back), seconds(trip)]);
  const changed = marks.toReversed().map((mark) => [clock(mark.unix_s), mark.target, mark.plan, mark.because ?? "–"]);
  return element("details", {}, element("summary", {}, `${count(samples.length, "measurement", "measurements")}, ${count(marks.length, "plan change", "plan changes")}`),
    framed("Measurements, newest first", ["at", ">there", ">back", ">round trip"], measured),
    marks.length === 0 ? null : framed("Plan changes, newest first", ["at", "target", "plan", "because"], changed));
}
