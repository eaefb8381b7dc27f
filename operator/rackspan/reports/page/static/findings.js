// The table of findings: searched, filtered and sorted here; rows are made for those that are shown.
{
  const table = by("findings-table");
  const all = (scan.findings || []).map((finding, at) => ({
    finding, at, rank: rankOf(finding.severity), where: whereOf(finding), since: finding.firstSeen ? Date.parse(finding.firstSeen) : Infinity,
    text: [finding.topic, finding.message, finding.fix, finding.domain, finding.rule, ruleName(finding.rule), whereOf(finding)].join("\n").toLowerCase(),
  }));
  const inAll = scan.summary?.findings ?? all.length;
  const atFirst = 20;
  const atOnce = 100;
  const state = { search: "", severities: new Set(), rule: "", topic: "", scope: null, sort: "severity", down: false, limit: atFirst };

  function whereOf(finding) {
    if (finding.topic !== null && finding.topic !== undefined) return finding.partition === null || finding.partition === undefined ? finding.topic : `${finding.topic}-${finding.partition}`;
    if (finding.broker !== null && finding.broker !== undefined) return `broker ${finding.broker}`;
    return finding.domain ?? "cluster";
  }

  if (table) {
    const body = table.tBodies[0];
    const keys = {
      severity: (row) => row.rank, rule: (row) => ruleName(row.finding.rule), where: (row) => row.where,
      message: (row) => row.finding.message, since: (row) => row.since, moves: (row) => -row.finding.moves,
    };
    const collator = new Intl.Collator("en-GB", { numeric: true });
    const compare = (one, other) => typeof one === "string" ? collator.compare(one, other) : one === other ? 0 : one < other ? -1 : 1;
    const passes = (row) => {
      const { finding } = row;
      return (!state.severities.size || state.severities.has(finding.severity)) && (!state.rule || finding.rule === state.rule)
        && (!state.topic || finding.topic === state.topic) && (!state.scope || state.scope.test(finding))
        && state.search.split(/\s+/).every((word) => row.text.includes(word));
    };

    const detail = ({ finding }) => element("tr", { class: "detail" }, element("td", { colspan: "6" },
      element("p", { class: "fix" }, element("b", {}, "To fix it: "), finding.fix || "nothing is known"),
      element("p", { class: "more-facts" }, [
        finding.level && `level ${finding.level}`, finding.domain && `domain ${finding.domain}`,
        finding.broker !== null && finding.broker !== undefined && `broker ${finding.broker}`,
        finding.rule === "NotCompliant" && finding.excess ? `${finding.excess} too many` : null, finding.moves ? `copies ${count(finding.moves, "replica")}` : "copies no data",
        finding.firstSeen && `first seen ${finding.firstSeen}`, `id ${finding.id}`,
      ].filter(Boolean).map((fact) => element("span", {}, fact)))));

    const toggle = (row, shown) => {
      const button = shown.querySelector(".expand");
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) shown.nextElementSibling.remove(); else shown.after(detail(row));
    };
    const line = (row) => {
      const { finding } = row;
      const shown = element("tr", { class: "finding" },
        element("td", {}, element("button", { type: "button", class: "expand", "aria-expanded": "false", "aria-label": `${finding.severity}: ${row.where}, show the fix` }, badge(finding.severity))),
        element("td", { class: "rule" }, ruleName(finding.rule)),
        element("td", { class: "where" }, row.where),
        element("td", { class: "message" }, finding.message),
        element("td", { class: "number since" }, finding.firstSeen ? element("time", { datetime: finding.firstSeen, title: finding.firstSeen }, ago(finding.firstSeen)) : "–"),
        element("td", { class: "number copy" }, finding.moves ? number(finding.moves) : "–"));
      shown.addEventListener("click", () => { if (!String(getSelection())) toggle(row, shown); });
      return shown;
    };

    const chips = new Map(page.severities.filter((severity) => all.some((row) => row.finding.severity === severity)).map((severity) => {
      const chip = element("button", { type: "button", class: "chip", "aria-pressed": "false" }, badge(severity), element("b", {}));
      chip.addEventListener("click", () => {
        if (!state.severities.delete(severity)) state.severities.add(severity);
        chip.setAttribute("aria-pressed", String(state.severities.has(severity)));
        draw();
      });
      return [severity, chip];
    }));
    by("severities").append(...chips.values());
    for (const [severity, chip] of chips) chip.querySelector("b").textContent = number(scan.summary?.bySeverity?.[severity] ?? all.filter((row) => row.finding.severity === severity).length);

    const fill = (select, values, name) => select.append(...values.map((value) => element("option", { value }, name(value))));
    const rules = [...new Set(all.map((row) => row.finding.rule))];
    const ordered = Object.keys(page.rules);
    fill(by("rule"), rules.sort((one, other) => ordered.indexOf(one) - ordered.indexOf(other)), (rule) => `${ruleName(rule)} (${number(scan.summary?.byRule?.[rule] ?? all.filter((row) => row.finding.rule === rule).length)})`);
    fill(by("topic"), [...new Set(all.map((row) => row.finding.topic).filter((topic) => topic !== null && topic !== undefined))].sort(collator.compare), (topic) => topic);

    function draw(keepLimit) {
      if (!keepLimit) state.limit = atFirst;
      const found = all.filter(passes);
      const key = keys[state.sort];
      found.sort((one, other) => (state.down ? -1 : 1) * compare(key(one), key(other)) || one.rank - other.rank || one.at - other.at);
      body.replaceChildren(...found.slice(0, state.limit).map(line));
      const filtered = Boolean(state.search || state.severities.size || state.rule || state.topic || state.scope);
      by("findings-count").textContent = `${number(found.length)} of ${number(all.length)} listed, ${number(inAll)} in all`;
      by("clear").hidden = !filtered;
      by("no-findings").hidden = found.length > 0;
      by("more").hidden = found.length <= state.limit;
      const left = found.length - state.limit;
      by("more").textContent = left > atOnce ? `Show ${number(atOnce)} more of ${number(left)}` : `Show ${number(left)} more`;
      by("scope").hidden = !state.scope;
      by("scope").textContent = state.scope ? `${state.scope.name} ×` : "";
      by("scope").setAttribute("aria-label", state.scope ? `Stop showing only ${state.scope.name}` : "");
      for (const heading of table.tHead.rows[0].cells) {
        if (heading.firstElementChild.dataset.sort === state.sort) heading.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        else heading.removeAttribute("aria-sort");
      }
    }

    function clear() {
      Object.assign(state, { search: "", rule: "", topic: "", scope: null });
      state.severities.clear();
      chips.forEach((chip) => chip.setAttribute("aria-pressed", "false"));
      for (const id of ["search", "rule", "topic"]) by(id).value = "";
      draw();
    }

    by("filters").addEventListener("submit", (event) => event.preventDefault());
    by("filters").addEventListener("reset", (event) => { event.preventDefault(); clear(); by("search").focus(); });
    by("search").addEventListener("input", (event) => { state.search = event.target.value.trim().toLowerCase(); draw(); });
    for (const id of ["rule", "topic"]) by(id).addEventListener("change", (event) => { state[id] = event.target.value; draw(); });
    by("scope").addEventListener("click", () => { state.scope = null; draw(); by("search").focus(); });
    by("clear-here").addEventListener("click", clear);
    by("more").addEventListener("click", () => {
      const first = state.limit;
      state.limit += atOnce;
      draw(true);
      body.querySelectorAll(".expand")[first]?.focus();
    });
    table.tHead.addEventListener("click", (event) => {
      const sort = event.target.dataset.sort;
      if (!sort) return;
      state.down = state.sort === sort && !state.down;
      state.sort = sort;
      draw();
    });
    const arrive = () => { by("findings").scrollIntoView(); by("search").focus({ preventScroll: true }); };
    window.showFindings = (name, test) => { clear(); state.scope = { name, test }; draw(); arrive(); };
    for (const button of document.querySelectorAll("[data-topic]")) {
      button.addEventListener("click", () => window.showFindings(button.dataset.topic, (finding) => finding.topic === button.dataset.topic));
    }
    draw();
  }
}
