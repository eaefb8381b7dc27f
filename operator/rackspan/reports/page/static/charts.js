// Bokeh draws; colours come from the page's style, so that they follow the theme.
{
  const probe = element("span", { hidden: true });
  document.body.append(probe);
  const colour = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const parts = (rgb) => (rgb.match(/[\d.]+/g) || []).slice(0, 3).map(Number);
  const mix = (one, other, share) => { const [a, b] = [parts(one), parts(other)]; return `rgb(${a.map((value, at) => Math.round(value + (b[at] - value) * share)).join(" ")})`; };
  const luminance = (rgb) => { const [r, g, b] = parts(rgb); return 0.299 * r + 0.587 * g + 0.114 * b; };
  const views = [];

  // From half a fair share to double, on both sides as far in colour.
  function heat(ratio, ends) {
    const step = Math.max(-1, Math.min(1, Math.log2(Math.max(ratio, 0.01))));
    const strength = Math.abs(step) < 0.03 ? 0 : Math.pow(Math.abs(step), 0.75);
    return mix(ends.middle, step < 0 ? ends.less : ends.more, strength);
  }

  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = "11px Inter, system-ui, sans-serif";
  const wide = (text) => ruler.measureText(text).width;

  // A domain's cell has one line, a broker's two; what does not fit is left out, and hovering says it.
  function label(name, value, room, lines) {
    const full = lines === 2 ? [name, number(value)] : [`${name}  ${number(value)}`];
    return Math.max(...full.map(wide)) + 10 <= room ? full.join("\n") : lines === 1 && wide(name) + 10 <= room ? name : "";
  }

  function dress(view) {
    const plot = view.model;
    const soft = colour("soft-ink");
    for (const axis of [...plot.below, ...plot.left]) { axis.major_label_text_color = soft; axis.axis_line_color = colour("line-strong"); }
    for (const grid of plot.center) grid.grid_line_color = colour("line");
    const ends = { middle: colour("middle"), less: colour("less"), more: colour("more") };
    for (const renderer of plot.renderers) {
      const { glyph, name, data_source: source } = renderer;
      if (name === "cells") {
        const fills = source.data.ratio.map((ratio) => heat(ratio, ends));
        const room = (at) => (source.data.right[at] - source.data.left[at]) * view.frame.bbox.width / plot.x_range.end;
        source.data = {
          ...source.data, fill: fills, ink: fills.map((fill) => luminance(fill) > 135 ? "#171b22" : "#ffffff"),
          text: source.data.name.map((text, at) => label(text, source.data.value[at], room(at), source.data.bottom[at] - source.data.top[at] > 1 ? 2 : 1)),
        };
        glyph.fill_color = { field: "fill" };
        glyph.line_color = plot.x_range.end * 6 > view.frame.bbox.width ? null : colour("surface");
      } else if (name === "labels") {
        glyph.text_color = { field: "ink" };
      } else if (name) {
        if (glyph.fill_color !== undefined) glyph.fill_color = colour(name);
        if (glyph.line_color !== undefined && glyph.type !== "VBar" && glyph.type !== "Scatter") glyph.line_color = colour(name);
      }
    }
  }

  // A browser prints before a chart could be drawn anew for paper: the style turns dark ones round by this mark.
  const mark = () => { document.documentElement.dataset.drawn = luminance(colour("ground")) < 128 ? "dark" : "light"; };

  async function draw() {
    for (const chart of page.charts) {
      await new Promise((go) => { setTimeout(go); }); // the rest of the page can be used meanwhile
      const manager = await Bokeh.embed.embed_item(chart.item, by(chart.target));
      for (const view of manager.roots) if (view.model.renderers) { views.push(view); dress(view); }
    }
    // A picture for the mouse: nothing in it answers to keys, and the tables below have its numbers.
    const inside = (root) => [...root.querySelectorAll("*")].flatMap((each) => [each, ...(each.shadowRoot ? inside(each.shadowRoot) : [])]);
    for (const chart of page.charts) for (const each of inside(by(chart.target))) if (each.tabIndex >= 0) each.tabIndex = -1;
    mark();
    const follow = () => { if (!matchMedia("print").matches) { views.forEach(dress); mark(); } };
    onTheme.push(follow);
    let later;
    addEventListener("resize", () => { clearTimeout(later); later = setTimeout(follow, 120); });
    document.documentElement.dataset.ready = "true";
  }

  if (page.charts.length) draw(); else document.documentElement.dataset.ready = "true";
}
