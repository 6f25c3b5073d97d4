// What is looked for within the page; each runs there, on its own.

/** The visible texts whose contrast to their ground is less than WCAG AA asks for (1.4.3). */
export function contrasts() {
  // Any colour of CSS as numbers: drawn, and looked at.
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const channels = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([red, green, blue]) => {
    const linear = [red, green, blue].map((channel) => {
      const part = channel / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    // WCAG leaves out what is switched off.
    if (!text.textContent.trim() || !element.checkVisibility() || element.closest(":disabled, noscript")) continue;
    const [one, other] = [channels(getComputedStyle(element).color), ground(element)].map(luminance);
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)}: ${text.textContent.trim()}`);
  }
  return found;
}

/** What stands out of its section at the right, unless it can be moved into sight there. */
export function cutOff() {
  const inside = [...document.querySelectorAll("header *, section *, dialog[open] *")].filter((element) => element.checkVisibility());
  const out = inside.filter((element) => {
    const around = element.closest("header, section, dialog").getBoundingClientRect();
    return element.getBoundingClientRect().right > around.right + 0.5;
  });
  const scrolling = [...document.querySelectorAll(".scroll")].filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
  return [...out, ...scrolling].map((element) => `${element.tagName} ${element.id}: ${element.textContent}`);
}

/** The controls that have no name, and what can be clicked but not reached by keyboard. */
export function unnamed() {
  const controls = [...document.querySelectorAll("button, input, select, textarea, a, summary")].filter((control) => control.checkVisibility());
  const nameless = controls.filter((control) => {
    const label = control.getAttribute("aria-label") ?? control.labels?.[0]?.textContent ?? control.textContent;
    return !label.trim();
  });
  const unreachable = controls.filter((control) => control.tabIndex < 0);
  return [...nameless, ...unreachable].map((control) => control.outerHTML);
}
