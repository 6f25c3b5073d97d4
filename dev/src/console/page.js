// Shared functions: creating elements, showing results, confirmations, refresh.
// External text becomes text nodes and attribute values, never markup.

export const byId = (id) => document.getElementById(id);

/** Creates an element. Attributes: booleans set or omit, on… adds a listener. Children: elements and texts. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

/** A button that keeps the focus when its row is created again. */
export function button(label, what, act) {
  const name = `${label.replace("…", "")} ${what}`;
  return el("button", { type: "button", "data-action": label, "aria-label": name, onclick: act }, label);
}

/** A row of a list: its content and its actions. */
export const row = (what, actions) =>
  el("li", {}, el("div", { class: "what" }, ...what), actions.length ? el("div", { class: "actions" }, ...actions) : null);

export const options = (select, pairs) =>
  select.replaceChildren(...pairs.map(([value, label]) => el("option", { value }, label)));

/** Shows a number in the title of a part of the page, and another one in its tab. */
export function counted(id, name, number, total = number) {
  byId(`${id}-title`).textContent = `${name} (${number})`;
  byId(`${id}-count`).textContent = total;
}

export const facts = (list, pairs) =>
  list.replaceChildren(...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

const was = new WeakMap();

/**
 * Brings a list in line with the items. What has not changed keeps its element; where the element under the keyboard
 * goes away, its neighbour takes over, or else `instead`.
 */
export function keep(list, items, key, build, instead) {
  const before = new Map([...list.children].map((child) => [was.get(child).key, child]));
  const elements = items.map((item) => {
    const [id, state] = [String(key(item)), JSON.stringify(item)];
    const old = before.get(id);
    if (old && was.get(old).state === state) return old;
    const made = build(item);
    was.set(made, { key: id, state });
    return made;
  });
  const same = elements.length === list.children.length && elements.every((made, at) => made === list.children[at]);
  if (same) return;
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const row = focused && [...list.children].find((child) => child.contains(focused));
  const at = [...list.children].indexOf(row);
  list.replaceChildren(...elements);
  if (!focused) return;
  if (focused.isConnected) return focused.focus();
  const next = elements.find((made) => was.get(made).key === was.get(row).key) ?? elements[Math.min(at, elements.length - 1)];
  const actions = [...(next?.querySelectorAll("[data-action]") ?? [])];
  (actions.find((action) => action.dataset.action === focused.dataset.action) ?? actions[0] ?? instead).focus();
}

/** Runs an action and shows the result in `output`. Returns whether it succeeded. */
export async function attempt(output, work) {
  say(output, "");
  try {
    say(output, (await work()) ?? "");
    return true;
  } catch (error) {
    if (error.name !== "AbortError") say(output, error.message, true);
    return false;
  }
}

export function say(output, text, failed = false) {
  output.classList.toggle("failed", failed);
  output.textContent = text;
}

/** Handles submit of a form: `work` gets its members by name. */
export function onSubmit(form, output, work) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(output, () => work(Object.fromEntries(new FormData(form))));
  });
}

export const onClick = (id, output, work) => byId(id).addEventListener("click", () => attempt(output, work));

/** Asks for confirmation. Resolves to null if it is cancelled, else to the form data. */
export function ask({ title, text, act, notify = false }) {
  const dialog = byId("ask");
  byId("ask-title").textContent = title;
  byId("ask-text").textContent = text;
  byId("ask-yes").textContent = act;
  byId("ask-notify-choice").hidden = !notify;
  byId("ask-notify").checked = false;
  return new Promise((resolve) => {
    let agreed = null;
    byId("ask-yes").onclick = () => {
      agreed = { notify: byId("ask-notify").checked };
      dialog.close();
    };
    byId("ask-no").onclick = () => dialog.close();
    dialog.onclose = () => resolve(agreed);
    dialog.showModal();
  });
}

export async function copy(text, output) {
  await attempt(output, async () => {
    if (!navigator.clipboard) throw new Error("this browser lets only pages from localhost or over https copy.");
    await navigator.clipboard.writeText(text);
    return "Copied.";
  });
}

const refreshers = [];
const leavers = [];
let running = null;
let next = null;

/** Runs `work` on every refresh. */
export const onRefresh = (work) => refreshers.push(work);

/** Runs `work` when another namespace is selected, to clear the state of the previous one. */
export const onLeave = (work) => leavers.push(work);

export const leave = () => leavers.forEach((work) => work());

/** Resolves when everything was refreshed after this call. */
export function refresh() {
  if (!running) {
    running = Promise.all(refreshers.map((work) => work())).finally(() => (running = null));
    return running;
  }
  next ??= running
    .catch(() => {})
    .then(() => {
      next = null;
      return refresh();
    });
  return next;
}

/** A number with its noun. */
export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
