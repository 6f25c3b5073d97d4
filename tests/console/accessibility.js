// Checks that run within the page.

/** The visible texts whose contrast with their background is below WCAG AA (1.4.3). */
export function contrasts() {
  // Converts any CSS color to numbers by drawing it.
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const channels = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
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
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    // WCAG excludes disabled elements.
    if (!text.textContent.trim() || !element.checkVisibility() || element.closest(":disabled, noscript")) continue;
    const [one, other] = [channels(getComputedStyle(element).color), background(element)].map(luminance);
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)}: ${text.textContent.trim()}`);
  }
  return found;
}

/** Elements beyond the right edge of their section, and areas that scroll sideways. */
export function cutOff() {
  const inside = [...document.querySelectorAll("header *, section *, dialog[open] *")].filter((element) => element.checkVisibility());
  const out = inside.filter((element) => {
    const around = element.closest("header, section, dialog").getBoundingClientRect();
    return element.getBoundingClientRect().right > around.right + 0.5;
  });
  const scrolling = [...document.querySelectorAll(".scroll")].filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
  return [...out, ...scrolling].map((element) => `${element.tagName} ${element.id}: ${element.textContent}`);
}

/** The controls that have no name, and those that cannot be reached by keyboard. */
export function unnamed() {
  const controls = [...document.querySelectorAll("button, input, select, textarea, a, summary")].filter((control) => control.checkVisibility());
  const nameless = controls.filter((control) => {
    const label = control.getAttribute("aria-label") ?? control.labels?.[0]?.textContent ?? control.textContent;
    return !label.trim();
  });
  const unreachable = controls.filter((control) => control.tabIndex < 0);
  return [...nameless, ...unreachable].map((control) => control.outerHTML);
}
