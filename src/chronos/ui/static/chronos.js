// The page works without this file. It adds: live regions, countdowns, the keyboard, copy buttons.
// It subtracts instants and nothing else: words, zones and next runs come from the server.
(() => {
  "use strict";
  const body = document.body, live = document.getElementById("live");
  if (!live) return;
  const loaded = performance.now(), serverNow = +body.dataset.now, wall = +body.dataset.wall;
  const now = () => serverNow + (performance.now() - loaded);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  // --- countdowns, by server time
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const span = (s, count) => {
    const parts = [];
    for (const [size, name] of units) {
      const n = Math.floor(s / size);
      if (n || parts.length) parts.push(n ? n + name : "");
      s -= n * size;
      if (parts.length === count) break;
    }
    return parts.filter(Boolean).join(" ") || "0s";
  };
  const tick = () => {
    for (const el of $$("[data-until]")) {
      const left = Math.floor((+el.dataset.until - now()) / 1000);
      const text = left > 0 ? "in " + span(left, "long" in el.dataset ? 2 : 1) : "now";
      if (el.textContent !== text) el.textContent = text;
    }
    if (lostAt) showLost();
  };

  // --- live regions
  let source = null, lostAt = 0, lostShown = false, moved = 0, pointer = null;
  const pending = new Map(), busy = new Set(), fetched = new Map();
  const say = (state, text) => {
    if (live.dataset.liveState === state && live.firstElementChild.textContent === text) return;
    live.dataset.liveState = state;
    live.firstElementChild.textContent = text;
  };
  const clock = (at) => {
    const s = (wall + Math.floor((at - loaded) / 1000)) % 86400;
    return [s / 3600, (s / 60) % 60, s % 60].map((n) => String(Math.floor(n)).padStart(2, "0")).join(":");
  };
  const isHeld = (region) =>
    (pointer && region.contains(pointer) && performance.now() - moved < 2000) ||
    (document.activeElement !== body && region.contains(document.activeElement)) ||
    (!getSelection().isCollapsed && region.contains(getSelection().anchorNode));
  const isBusy = (region) => region.querySelector("dialog[open], details.menu[open]") !== null;

  // Keep the rows that are on the page, in their order; new rows wait, removed rows stay grey.
  const holdRows = (region, fragment) => {
    const old = region.querySelector("tbody"), fresh = fragment.querySelector("tbody");
    if (!old || !fresh) return 0;
    const rows = new Map($$("tr[id]", fresh).map((row) => [row.id, row]));
    const kept = $$("tr[id]", old).map((row) => {
      const found = rows.get(row.id);
      rows.delete(row.id);
      if (found) return found;
      const gone = row.cloneNode(true);
      gone.classList.add("gone");
      return gone;
    });
    if (!kept.length) return 0;
    fresh.replaceChildren(...kept);
    return rows.size;
  };
  const showFresh = (region, count) => {
    let bar = region.previousElementSibling;
    if (!bar || !bar.classList.contains("fresh")) {
      if (!count) return;
      bar = document.createElement("div");
      bar.className = "fresh";
      bar.setAttribute("role", "status");
      region.before(bar);
    }
    if (!count) { bar.remove(); return; }
    const noun = region.dataset.live.startsWith("jobs") ? "job" : region.dataset.live === "letters" ? "dead letter" : "run";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link-button link";
    button.textContent = "Show";
    button.addEventListener("click", () => { bar.remove(); refresh(region, true); });
    bar.replaceChildren(`${count} new ${noun}${count === 1 ? "" : "s"}`, button);
  };
  const refresh = async (region, all = false) => {
    if (busy.has(region) || !region.isConnected || (!all && isBusy(region))) return;
    if ("reload" in region.dataset) { location.reload(); return; }
    busy.add(region);
    pending.delete(region);
    const address = location.href, url = new URL(address);
    url.hash = "";
    url.searchParams.set("part", region.dataset.part);
    try {
      const answer = await fetch(url, { headers: { "X-Requested-With": "live" }, redirect: "error" });
      if (answer.status === 401) { location.reload(); return; }
      if (!answer.ok || location.href !== address) return;
      const holder = document.createElement("template");
      holder.innerHTML = await answer.text();
      const held = isHeld(region), log = "follow" in region.dataset;
      const atEnd = log && region.scrollHeight - region.scrollTop - region.clientHeight < 40;
      if (!all && ("hold" in region.dataset || held)) showFresh(region, holdRows(region, holder.content));
      const text = holder.innerHTML;
      await htmx.swap({ text, target: region, sourceElement: region, swap: "innerMorph" });
      if (atEnd) region.scrollTop = region.scrollHeight;
      say(held ? "held" : "on", held ? "Updates paused" : "Live");
      tick();
    } catch { /* the connection says so */ } finally {
      busy.delete(region);
      fetched.set(region, performance.now());
    }
  };
  let timer = 0;
  const flush = () => {
    timer = 0;
    const at = performance.now();
    let next = Infinity;
    for (const [region, wait] of pending) {
      const left = (fetched.get(region) ?? -1e9) + wait - at;
      if (left <= 0 && !busy.has(region)) refresh(region);
      else next = Math.min(next, Math.max(left, 200));
    }
    if (next < Infinity) timer = setTimeout(flush, next);
  };
  const signal = (topics) => {
    const many = topics.includes("many");
    for (const region of $$("[data-live]")) {
      if (many || region.dataset.live.split(" ").some((topic) => topics.includes(topic))) pending.set(region, many ? 5000 : 2000);
    }
    if (pending.size && !timer) flush();
  };
  const showLost = () => {
    const since = performance.now() - lostAt;
    if (since < 10000) return;
    const note = document.getElementById("connection");
    lostShown = true;
    note.hidden = false;
    const text = `Disconnected since ${clock(lostAt)}. This page is ${span(Math.floor(since / 1000), 1)} old.`;
    note.querySelector("[data-connection]").textContent = text;
    say("off", `Disconnected since ${clock(lostAt)}`);
  };
  let backoff = 1000, retry = 0, wasOpen = false;
  const connect = () => {
    clearTimeout(retry);
    if (source || document.hidden || !$$("[data-live]").length) return;
    source = new EventSource(body.dataset.liveUrl);
    source.addEventListener("hello", () => {
      backoff = 1000;
      if (wasOpen) $$("[data-live]").forEach((region) => refresh(region));
      wasOpen = true;
      lostAt = 0;
      if (lostShown) document.getElementById("connection").hidden = true;
      lostShown = false;
      live.hidden = false;
      say("on", "Live");
    });
    source.onmessage = (event) => signal(JSON.parse(event.data));
    source.onerror = () => {
      disconnect();
      lostAt ||= performance.now();
      retry = setTimeout(connect, backoff * (0.75 + Math.random() / 2));
      backoff = Math.min(30000, backoff * 2);
    };
  };
  const disconnect = () => { source?.close(); source = null; };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { disconnect(); clearTimeout(retry); } else connect();
  });
  addEventListener("pagehide", disconnect);
  addEventListener("pointermove", (event) => { moved = performance.now(); pointer = event.target; }, { passive: true });

  // --- buttons
  $$(".js-only").forEach((el) => (el.hidden = false));
  $$("button.js-only[hidden]").forEach((el) => (el.hidden = false));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    for (const menu of $$("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    if (!button) return;
    const from = button.dataset.copyFrom;
    const text = from ? document.getElementById(from).textContent : button.dataset.copy;
    if (text !== undefined) navigator.clipboard?.writeText(text);
    if ("keys" in button.dataset) document.getElementById("keys").showModal();
  });

  // --- keyboard
  const pages = { j: "/jobs", r: "/runs", d: "/dead-letters", c: "/cluster" };
  const keysOn = document.getElementById("keys-on");
  keysOn.checked = localStorage.getItem("keys") !== "off";
  keysOn.addEventListener("change", () => localStorage.setItem("keys", keysOn.checked ? "on" : "off"));
  let prefix = "";
  const rowLinks = () => $$("tbody th[scope=row] a");
  const step = (by) => {
    const links = rowLinks(), at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  };
  const focusOn = (...ids) => { for (const id of ids) { const el = document.getElementById(id); if (el) { el.focus(); return true; } } return false; };
  addEventListener("keydown", (event) => {
    const key = event.key, typing = event.target.closest?.("input, textarea, select, dialog");
    if (key === "k" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); document.querySelector(".jump [name=q]").focus(); return; }
    if (key === "Escape") $$("details.menu[open]").forEach((menu) => { menu.open = false; menu.firstElementChild.focus(); });
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !keysOn.checked) return;
    if (prefix === "g") {
      prefix = "";
      const link = pages[key] && document.querySelector(`.nav a[href^="${body.dataset.base}${pages[key]}"]`);
      if (link) link.click();
      return;
    }
    if (key === "g") { prefix = "g"; setTimeout(() => (prefix = ""), 1500); return; }
    const target = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (target) { target.click(); return; }
    if (key === "/") { if (focusOn("q", "logq") || (document.querySelector(".jump [name=q]").focus(), true)) event.preventDefault(); }
    else if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "o" && rowLinks().includes(document.activeElement)) document.activeElement.click();
    else if (key === "w") focusOn("h-why");
    else if (key === "l") focusOn("h-log");
    else if (key === "t") document.querySelector('button[name="theme"]').click();
    else if (key === "?") document.getElementById("keys").showModal();
  });

  const log = document.querySelector(".log[data-follow]");
  if (log && !location.hash.startsWith("#L")) log.scrollTop = log.dataset.follow === "end" ? log.scrollHeight : 0;
  setInterval(tick, 1000);
  connect();
})();
