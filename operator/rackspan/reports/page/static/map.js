// The rack map is one stop of the Tab key; inside, arrow keys walk the tree as they do in a file manager.
{
  const map = by("map");
  const brokers = new Map((scan.brokers || []).map((row) => [String(row.id), row]));
  const domains = new Map((scan.domains || []).map((row) => [row.domain, row]));

  const steps = (rack) => rack.split("/").filter(Boolean).join("/"); // `eu` and `/eu` are the same place
  const facts = (rows) => element("dl", {}, rows.filter(([, value]) => value !== null && value !== undefined)
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

  function losses(loss) {
    if (!loss) return [];
    return [element("h4", {}, "Its loss would"), facts([
      ["take offline", count(loss.offline, "partition")],
      ["stop writes to", count(loss.notWritable, "partition")],
      ["leave one replica of", count(loss.lastReplica, "partition")],
    ])];
  }

  function findingsHere(test, scope) {
    const here = (scan.findings || []).filter(test);
    if (!here.length) return [];
    const shown = here.slice(0, 4);
    return [
      element("h4", {}, count(here.length, "finding"), " here"),
      element("ul", {}, shown.map((finding) => element("li", {}, badge(finding.severity), element("span", {}, ruleName(finding.rule),
        finding.topic ? element("span", { class: "quiet" }, ` ${finding.topic}${finding.partition === null || finding.partition === undefined ? "" : `-${finding.partition}`}`) : "")))),
      element("div", { class: "buttons" }, element("button", { type: "button", class: "ghost", click: () => window.showFindings(scope, test) },
        here.length > shown.length ? `List all ${number(here.length)}` : "List them")),
    ];
  }

  const askLoss = (value) => by("lost") ? element("div", { class: "buttons" }, element("button", { type: "button", class: "ghost", click: () => window.showLoss(value) }, "Compare its loss")) : null;

  function aboutBroker(row) {
    const tags = [!row.online && "offline", row.draining && "draining", row.cordoned && "cordoned"].filter(Boolean);
    const drifts = typeof row.reportedRack === "string" && steps(row.reportedRack) !== steps(row.rack ?? "");
    return [
      element("h3", {}, `Broker ${row.id}`, row.worst ? badge(row.worst) : element("span", { class: "badge" }, icon("fine"), "fine")),
      tags.length ? element("p", {}, tags.map((tag) => element("span", { class: `tag ${tag === "offline" ? "bad" : ""}` }, tag)), " ") : null,
      facts([
        ["stands in", row.rack ?? "unknown"],
        ["broker.rack", drifts ? `${row.reportedRack} (differs)` : row.reportedRack ?? (row.online ? "not set" : "not known")],
        ["replicas", number(row.replicas)],
        ["preferred leaders", number(row.leaders)],
        ["leads now", number(row.leading)],
        ["data", row.bytes === null || row.bytes === undefined ? null : size(row.bytes)],
        ["flaps", row.flaps ? number(row.flaps) : null],
      ]),
      ...losses(row.whatIf),
      ...findingsHere((finding) => finding.broker === row.id, `broker ${row.id}`),
      askLoss(`broker ${row.id}`),
    ];
  }

  function aboutDomain(path) {
    const row = domains.get(path);
    const inside = (finding) => finding.domain === path || (finding.domain || "").startsWith(`${path}/`);
    return [
      element("h3", {}, path, row?.worst ? badge(row.worst) : null),
      facts(row ? [
        ["level", row.level], ["brokers", number(row.brokers)], ["replicas", number(row.replicas)],
        ["preferred leaders", number(row.leaders)], ["data", row.bytes === null || row.bytes === undefined ? null : size(row.bytes)],
      ] : [["brokers", number(map.querySelectorAll(`[data-domain="${CSS.escape(path)}"] .cell`).length)]]),
      ...losses(row?.whatIf),
      ...findingsHere(inside, path),
      row ? askLoss(path) : null,
    ];
  }

  if (map) {
    const nothing = [...by("inspect").childNodes];
    const items = [...map.querySelectorAll("[role=treeitem]")];
    let current = items[0];
    current?.setAttribute("tabindex", "0");

    const show = (item) => {
      map.querySelectorAll(".chosen").forEach((other) => { other.classList.remove("chosen"); other.removeAttribute("aria-selected"); });
      if (!item) { by("inspect").replaceChildren(...nothing); return; }
      item.classList.add("chosen");
      item.setAttribute("aria-selected", "true");
      const parts = item.dataset.broker === undefined ? aboutDomain(item.dataset.domain) : aboutBroker(brokers.get(item.dataset.broker));
      by("inspect").replaceChildren(...parts.filter(Boolean));
    };
    const move = (item) => {
      if (!item) return;
      current.setAttribute("tabindex", "-1");
      current = item;
      current.setAttribute("tabindex", "0");
      current.focus();
    };
    const parentOf = (item) => item.parentElement.closest("[role=treeitem]");
    const visible = (item, step) => items[items.indexOf(item) + step];
    const peers = (item) => items.filter((other) => parentOf(other) === parentOf(item));
    const keys = {
      ArrowRight: (item) => item.querySelector("[role=treeitem]") ?? visible(item, 1),
      ArrowLeft: (item) => { const all = peers(item); return all[all.indexOf(item) - 1] ?? parentOf(item); },
      ArrowDown: (item) => visible(item, 1),
      ArrowUp: (item) => visible(item, -1),
      Home: () => items[0],
      End: () => items.at(-1),
    };
    map.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { show(null); return; }
      if (event.key === "Enter" || event.key === " ") { show(current); event.preventDefault(); return; }
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      move(keys[event.key](current));
      event.preventDefault();
    });
    map.addEventListener("focusin", (event) => {
      const item = event.target.closest("[role=treeitem]");
      if (item) show(item);
    });
    map.addEventListener("click", (event) => {
      const item = event.target.closest("[role=treeitem]");
      if (item) { move(item); show(item); }
    });
  }
}
