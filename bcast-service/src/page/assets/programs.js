// Real use: what programs of this node broadcast, what carried it, and what that took.

import { byId, element, say, show, table } from "./element.js";
import { ago, amount, clock, seconds } from "./units.js";

let told = null;

export function update(fresh) {
  told = fresh;
  ages();
}

// How a program is named here and in delays.js.
export const nameOf = ({ command, pid, job }) =>
  `${command ?? "a process"}${pid === null ? "" : ` ${pid}`}${job === null ? "" : `, job ${job}`}`;

const total = (uses, name) => uses.reduce((sum, use) => sum + use[name], 0);

export function ages() {
  if (!told) return;
  const { programs, left_out } = told;
  const roots = programs.filter(({ uses }) => uses.length > 0);
  const others = programs.length - roots.length;
  if (programs.length === 0) {
    say("programs-note", "No program has broadcast on this node since the daemon was started.");
    return show(byId("programs-table"));
  }
  const uses = roots.flatMap(({ uses }) => uses);
  const known = uses.filter(({ gained_s }) => gained_s !== null);
  const gained = known.length === 0 ? "" : ` About ${seconds(total(known, "gained_s"))} gained, by the experiment's medians of native and plan; where it has not measured native, by the least that programs' native ones took.`;
  const receivers = others === 0 ? "" : ` ${others} other programs were no root here.`;
  const more = left_out === 0 ? "" : ` ${left_out} earlier ones are left out.`;
  say("programs-note", `Programs with a root on this node, since the daemon was started: ${total(uses, "along_trees")} broadcasts along trees, ` +
    `${total(uses, "native")} native.${gained} Times are medians of those that were timed, along trees at most one of 64; a native one is what its root spent.${receivers}${more}`);
  const rows = roots.flatMap((program) => program.uses.map((use, i) => [
    i === 0 ? nameOf(program) : element("span", { class: "again" }, nameOf(program)),
    i > 0 ? "" : program.ended_unix_s === null ? `since ${clock(program.since_unix_s)}`
      : `${clock(program.since_unix_s)} to ${clock(program.ended_unix_s)}`,
    i > 0 ? "" : ago(program.used_unix_s),
    use.size, use.along_trees, use.native, amount(use.bytes), time(use.tree_time), time(use.native_time),
    use.gained_s === null ? "–" : seconds(use.gained_s),
  ]));
  show(byId("programs-table"), roots.length === 0 ? [] : table("Real use by program", ["program", "runs", "last used", "size",
    ">along trees", ">native", ">bytes", ">time along trees", ">native time", ">gained"], rows));
}

const time = (time) => (time === null ? "–" : `${seconds(time.median_s)} of ${time.of}`);
