// What applications use and what has been found for it; the chosen one with its reason.

import { byId, element, say, show, table } from "./element.js";
import { ago, bytes, seconds, times } from "./units.js";
import { choose, chosenPath } from "./trees.js";

let list = null;

export function update(fresh) {
  list = fresh;
  draw();
}

export const ages = () => list && draw();

function draw() {
  const { targets, left_out } = list;
  if (targets.length === 0) {
    say("targets-note", "No application has broadcast yet, and no experiment has searched.");
    return show(byId("targets-table"));
  }
  const more = left_out === 0 ? "" : ` ${left_out} more are left out.`;
  const isLeast = ({ plan, native_at_least_s }) => plan?.native_s == null && native_at_least_s !== null;
  const least = targets.some(isLeast) ? " ≥: native was not measured; roots of programs, which leave a broadcast before the others, spent this." : "";
  say("targets-note", `Most recent use first; choose one to see why it has its plan. A time in italics is predicted, not measured.${least}${more}`);
  const row = (target) => {
    const { plan } = target;
    const time = plan === null ? null : plan.is_measured ? seconds(plan.median_s)
      : element("i", {}, `${seconds(plan.median_s)} predicted`);
    const distance = plan?.limit_s ? plan.median_s / plan.limit_s : null;
    return [
      element("button", {
        "data-key": target.path, "data-path": target.path, "aria-pressed": target.path === chosenPath(),
      }, `${target.root} ${target.size}`),
      target.nodes,
      target.bytes === null ? "–" : bytes(target.bytes),
      target.broadcasts,
      ago(target.used_unix_s),
      plan === null ? "none yet" : plan.text,
      time,
      isLeast(target) ? `≥ ${seconds(target.native_at_least_s)}` : seconds(plan?.native_s),
      seconds(plan?.limit_s),
      element("span", { class: "distance" }, times(distance), gauge(distance)),
      seconds(target.in_use_s),
    ];
  };
  show(byId("targets-table"), table("Targets", ["target", ">nodes", ">last size", ">broadcasts", "last used",
    "plan in use", ">its time", ">native", ">bound", ">distance", ">in real use"], targets.map(row)));
}

// How much of the distance is left: full at the bound.
function gauge(distance) {
  if (distance === null) return null;
  return element("meter", {
    min: 0, max: 1, low: 0.25, high: 0.5, optimum: 1, value: (1 / Math.max(1, distance)).toFixed(2),
    "aria-label": "bound over time",
  });
}

byId("targets-table").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  choose(button.dataset.path);
  byId("why").focus({ preventScroll: true });
  byId("why").scrollIntoView({ block: "nearest" });
});

// Why the chosen target has its plan.
export function detail(detail) {
  if (list) draw();
  if (!detail) return show(byId("why"));
  show(byId("why"), element("h3", {}, `Why: ${detail.name}`),
    element("p", {}, detail.headline ?? "No plan yet: no experiment has searched for it."),
    detail.why && element("dl", {}, detail.why.flatMap(([name, value]) =>
      [element("dt", {}, name), element("dd", {}, value)])),
    detail.headline && element("p", { class: "note" }, `In a terminal: arborcast explain ${detail.path.split("/")[0]}/${detail.root}/${detail.name.split(" ").at(-1)}`));
}
