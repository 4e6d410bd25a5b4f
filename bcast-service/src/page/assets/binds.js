// What limits each target, and what more of it would bring.

import { byId, element, say, show } from "./element.js";
import { bytes, rate, seconds, times } from "./units.js";

export function update(rows) {
  if (rows.length === 0) {
    say("binds-note", "Nothing can be said before links have been measured.");
    return show(byId("binds-list"));
  }
  say("binds-note", "By the planner's model of the links as they were measured. “Faster” compares the best plans that the model proposes before and after; “bound” what no broadcast can beat.");
  show(byId("binds-list"), rows.map(card));
}

function card(row) {
  const title = element("h3", {}, `${row.root} ${bytes(row.bytes)}`);
  if (row.bound_s === undefined) return element("article", {}, title, element("p", {}, "being computed …"));
  const way = row.way.join(" → ");
  const parts = `At least ${seconds(row.bound_s)}: ${seconds(row.reach_s)} to reach ${row.node} (${way}), ${seconds(row.ack_s)} for its ACK, ` +
    `${seconds(row.bytes_s)} for the bytes at ${rate(row.bytes_per_s)}, the most that reaches it, ` +
    `${seconds(row.detours_s)} since not all of that takes the shortest way.`;
  if (row.is_latency) {
    return element("article", {}, title, element("p", {}, element("strong", {}, "Latency binds. "), "A faster link brings nothing."),
      element("p", {}, parts));
  }
  const gain = (doubled) => {
    if (!doubled) return "not computed";
    const bound = `bound ${times(doubled.bound_times)}`;
    return doubled.predicted_times === null ? bound : `${times(doubled.predicted_times)} as fast (${bound})`;
  };
  const part = ({ part, bytes_per_s, set, doubled }) => element("li", {}, element("strong", {}, part), `, ${rate(bytes_per_s)}: doubled, ${gain(doubled)}`,
    set && element("code", {}, `--set ${set}`));
  return element("article", {}, title,
    element("p", {}, row.cut.length === 1 ? "One part binds:" : "These bind together:"),
    element("ul", {}, row.cut.map(part),
      row.left_out_parts > 0 ? element("li", {}, `and ${row.left_out_parts} more`) : null,
      row.all_doubled && row.cut.length > 1 ? element("li", {}, `all of them doubled: ${gain(row.all_doubled)}`) : null),
    element("p", { class: "note" }, parts));
}
