// The experiment: what it does, whom it waits for, and how the chosen target converged.

import { byId, element, say, show, table } from "./element.js";
import { ago, clock, seconds } from "./units.js";
import { convergence } from "./chart.js";

const STATES = {
  none: "no experiment job is connected",
  waiting: "waiting: no demand, or an application holds the network",
  running: "running",
  stopping: "stopping for an application",
  paused: "paused by an operator",
};

let facts = null;

export function status(fresh) {
  facts = fresh;
  ages();
}

export function ages() {
  if (!facts) return;
  const rows = [
    ["state", STATES[facts.experiment] ?? facts.experiment],
    ["job", facts.epoch === null ? "none" : `epoch ${facts.epoch}, ${facts.experiment_ranks} of its ranks here`],
    ["trials", facts.trials], ["plans", facts.plans],
    ["applications", facts.applications], ["broadcasts seen", facts.broadcasts],
    ["holds", facts.holds], ["forgotten holds", facts.forgotten_holds],
    ["hold time-outs", facts.hold_timeouts], ["overdue stops", facts.overdue_stops],
    ["daemon up since", `${clock(facts.started_unix_s)} (${ago(facts.started_unix_s)})`],
  ];
  show(byId("facts"), rows.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))));
}

export function detail(detail) {
  const points = detail?.points ?? [];
  if (points.length === 0) {
    say("trials-note", detail ? `No trials of ${detail.name} are known.` : "No target is known yet.");
    say("convergence-legend", "");
    show(byId("convergence"));
    return show(byId("trials"));
  }
  const { trial_count } = detail;
  say("trials-note", `${detail.name}: ${trial_count} ${trial_count === 1 ? "trial" : "trials"}, best ${seconds(points.at(-1)[2])}.`);
  show(byId("convergence"), convergence(detail));
  show(byId("convergence-legend"), element("span", { class: "swatch trial" }), " a trial ", element("span", { class: "swatch best" }),
    " the best so far ", element("span", { class: "swatch native" }), " native ", element("span", { class: "swatch limit" }), " bound");
  byId("convergence-legend").hidden = false;
  const rows = detail.newest.map((trial) => [
    trial.number, clock(trial.unix_s), trial.plan, trial.strategy,
    trial.predicted_s === null ? "–" : element("i", {}, seconds(trial.predicted_s)),
    trial.median_s === null ? "dropped" : seconds(trial.median_s), seconds(trial.best_s),
  ]);
  show(byId("trials"), table("The newest trials",
    ["trial", "at", "plan", "strategy", ">predicted", ">measured", ">best so far"], rows));
}
