// The loss of the chosen domain, beside the worst of its own level.
{
  const select = by("lost");
  const effects = [
    ["offline", "Offline", "partitions without a leader", "critical"],
    ["notWritable", "Not writable", "partitions that refuse acks=all", "high"],
    ["lastReplica", "Last replica", "partitions with one replica left", "medium"],
    ["copy", "To copy again", "to have every replica back", "accent"],
  ];
  const known = (bytes) => bytes !== null && bytes !== undefined;
  const losses = [
    ...(scan.domains || []).map((row) => ({ name: row.domain, kind: row.level, ...row.whatIf })),
    ...(scan.brokers || []).map((row) => ({ name: `broker ${row.id}`, kind: "broker", ...row.whatIf })),
  ].map((loss) => ({ ...loss, copy: known(loss.bytes) ? loss.bytes : loss.replicas }));
  const words = (loss, effect) => effect === "copy" ? (known(loss.bytes) ? size(loss.bytes) : count(loss.replicas, "replica")) : number(loss[effect]);
  const worse = (one, other) => other.offline - one.offline || other.notWritable - one.notWritable || other.lastReplica - one.lastReplica || other.copy - one.copy;
  const bar = (value, most, tone) => element("div", { class: "bar", "--w": `${most ? Math.max(value ? 2 : 0, 100 * value / most) : 0}%`, "--tone": `var(--${tone})` }, element("i"));

  function draw() {
    const chosen = losses.find((loss) => loss.name === select.value);
    if (!chosen) return;
    const peers = losses.filter((loss) => loss.kind === chosen.kind).sort(worse);
    const cards = effects.map(([effect, title, means, tone]) => {
      const worst = peers.reduce((most, loss) => loss[effect] > most[effect] ? loss : most, chosen);
      return element("div", { "data-effect": effect },
        element("p", { class: "loss-name" }, element("b", {}, title), ` ${means}`),
        element("p", { class: `loss-value ${chosen[effect] ? "" : "zero"}` }, words(chosen, effect)),
        bar(chosen[effect], worst[effect], tone),
        element("p", { class: "loss-worst" }, !worst[effect] ? `no ${chosen.kind} does this` : worst === chosen ? `the worst ${chosen.kind}` : `worst ${chosen.kind}: ${worst.name}, ${words(worst, effect)}`));
    });
    const rows = peers.slice(0, 6);
    if (!rows.includes(chosen)) rows.push(chosen);
    const most = Object.fromEntries(effects.map(([effect]) => [effect, Math.max(...peers.map((loss) => loss[effect]))]));
    const table = peers.length < 2 ? null : element("div", { class: "table-wrap" }, element("table", { class: "compact" },
      element("thead", {}, element("tr", {}, element("th", {}, `Worst of ${count(peers.length, chosen.kind)}`), effects.map(([, title]) => element("th", { class: "number" }, title)))),
      element("tbody", {}, rows.map((loss) => element("tr", loss === chosen ? { class: "this", "aria-current": "true" } : {},
        element("td", { class: "name" }, loss === chosen ? loss.name : element("button", { type: "button", class: "link", click: () => { select.value = loss.name; draw(); select.focus(); } }, loss.name)),
        effects.map(([effect, , , tone]) => element("td", { class: "number scaled" }, bar(loss[effect], most[effect], tone), words(loss, effect))))))));
    by("loss-result").replaceChildren(element("div", { class: "losses" }, cards), ...(table ? [table] : []));
  }

  if (select) {
    const named = page.loss && (page.loss.kind === "broker" ? `broker ${page.loss.name}` : page.loss.name);
    const first = losses.find((loss) => loss.name === named) ?? [...losses].filter((loss) => loss.kind !== "broker").sort(worse)[0];
    if (first) select.value = first.name;
    select.addEventListener("change", draw);
    window.showLoss = (name) => { select.value = name; draw(); by("loss").scrollIntoView(); select.focus({ preventScroll: true }); };
    draw();
  }
}
