"""JavaScript functions that tests evaluate in a page."""

COLOURS_OF_CHART = """(id) => {
  const inside = (root) => [...root.querySelectorAll("*")].flatMap(
    (each) => [each, ...(each.shadowRoot ? inside(each.shadowRoot) : [])]);
  const found = new Set();
  for (const canvas of inside(document.getElementById(id)).filter((each) => each.tagName === "CANVAS")) {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 60) found.add(data.slice(at, at + 3).join());
  }
  return found.size;
}"""
"""Return the number of colours in the canvases of a chart."""

POOR_CONTRAST = """() => {
  const scaled = (text) => {
    const [r, g, b, a = 1] = (text.replace("srgb", "").match(/[\\d.]+/g) || []).map(Number);
    return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = scaled(getComputedStyle(at).backgroundColor);
      if (found[3]) return found;
    }
    return [255, 255, 255];
  };
  const says = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  const poor = new Set();
  for (const node of document.querySelectorAll("main *, header *")) {
    if (!says(node) || !node.checkVisibility() || node.closest("option, optgroup")) continue;
    const [one, other] = [light(scaled(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) poor.add(`${node.tagName}.${node.className} ${ratio.toFixed(2)} ${node.textContent.slice(0, 20)}`);
  }
  return [...poor];
}"""
"""Return the texts whose contrast to their background is less than 4.5 to 1."""

TOO_WIDE = """() => [...document.querySelectorAll(".table-wrap")]
  .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.closest("section").id} ${each.scrollWidth} > ${each.clientWidth}`)"""
"""Return the tables that scroll horizontally."""

FOCUSED = """() => {
  const now = document.activeElement;
  const kind = now.closest("#map") ? "map" : now.matches(".chip") ? "chip" : now.matches(".expand") ? "row" : "";
  const place = `${now.closest("section")?.id} ${now.tagName}`;
  return [now.id || kind || now.dataset.sort || place, getComputedStyle(now).outlineStyle];
}"""
"""Return the focused element and the style of its outline."""
