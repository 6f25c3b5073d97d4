// The page. It has no token: the browser adds the cookie to requests of its own origin.

const find = (id) => document.getElementById(id);

async function call(method, path, json) {
  const options = json && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(json) };
  const response = await fetch(path, { method, ...options });
  if (response.ok) return response.json();
  const { error } = await response.json();
  if (response.status === 401) show(false);
  throw new Error(error);
}

function show(isLoggedIn) {
  find("login").hidden = isLoggedIn;
  find("orders").hidden = !isLoggedIn;
}

/** Runs the action and shows how it ended. */
async function report(action, done) {
  try {
    await action();
    find("status").textContent = done;
  } catch (error) {
    find("status").textContent = error.message;
  }
}

find("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const credentials = Object.fromEntries(new FormData(event.target));
  event.target.reset();
  report(async () => {
    await call("POST", "/bff/login", credentials);
    show(true);
  }, "Logged in.");
});
find("load").addEventListener("click", () => report(async () => {
  find("result").textContent = JSON.stringify(await call("GET", "/api/orders"));
}, "Loaded."));
find("logout").addEventListener("click", () => report(async () => {
  find("result").textContent = "";
  show(false);
  await call("POST", "/bff/logout");
}, "Logged out."));

report(async () => {
  await call("GET", "/bff/session");
  show(true);
}, "Logged in.");
