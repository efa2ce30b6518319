// The table of all sinks: rows are changed in place, so a refresh does not flicker; foreign text only ever becomes text.
const CELLS = ["state", "sink", "since", "lag", "delay", "caught_up", "letters", "last_commit", "day", "why"];
const TITLES = {
  state: "State", sink: "Sink", since: "For", lag: "Lag", delay: "Delay", caught_up: "Catches up", letters: "Dead letters",
  last_commit: "Last commit", day: "Read, 24 h", why: "Why",
};
const HELP = {
  since: "How long it is in this state.",
  lag: "Records between what is in objects and the heads of the topics.",
  delay: "Of the records of the last commit, from their own time to it: 95 % were quicker.",
  caught_up: "By when a sink that is behind has read all that is in Kafka, at its pace.",
  letters: "Those of the whole log that were not settled.",
  last_commit: "How long ago data was last committed.",
  day: "Records read in each of the last 24 hours.",
};
const LARGEST = 30, SMALLEST = 9;
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const WIDE_EM = 86;  // so wide are two sinks side by side

function element(kind, role, classes) {
  const made = document.createElement(kind);
  if (role) made.setAttribute("role", role);
  made.className = classes;
  return made;
}

function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function bars(place, hours) {
  const known = JSON.stringify(hours);
  if (place.dataset.hours === known) return;
  place.dataset.hours = known;
  const most = Math.max(...(hours ?? []), 1), tall = (hours ?? []).map(read => `${(read / most).toFixed(3)}`);
  place.replaceChildren(...tall.map(height => {
    const bar = element("i", "", "bar");
    bar.style.height = `${Math.max(height * 100, 4)}%`;
    return bar;
  }));
  place.setAttribute("aria-label", hours ? `${hours.reduce((sum, read) => sum + read, 0).toLocaleString("en")} records` : "unknown");
}

function newRow() {
  const row = element("div", "row", "row");
  for (const name of CELLS) {
    const cell = element("div", "cell", name);
    if (name === "sink") cell.append(element("a", "", ""));
    if (name === "state") cell.append(element("span", "", "badge"));
    row.append(cell);
  }
  return row;
}

function fill(row, one) {
  row.dataset.sink = one.sink;
  row.dataset.state = one.state;
  const cell = name => row.querySelector(`.${name}`);
  write(cell("state").firstChild, one.state);
  const link = cell("sink").firstChild;
  write(link, one.sink);
  link.setAttribute("href", "overview?" + new URLSearchParams({ sink: one.sink }));
  for (const name of ["since", "lag", "delay", "caught_up", "letters", "last_commit", "why"]) write(cell(name), one[name]);
  bars(cell("day"), one.day);
  cell("why").title = one.reason;
}

function place(box, rows, known) {
  rows.forEach((one, number) => {
    const row = known.get(one.sink) ?? newRow();
    known.set(one.sink, row);
    fill(row, one);
    if (box.children[number] !== row) box.insertBefore(row, box.children[number] ?? null);
  });
  while (box.children.length > rows.length) box.lastChild.remove();
}

function count(root, counts) {
  const box = root.querySelector(".counts");
  while (box.children.length < counts.length) {
    const tile = element("div", "listitem", "tile");
    tile.append(element("b", "", ""), element("span", "", ""));
    box.append(tile);
  }
  counts.forEach(([state, number], at) => {
    const tile = box.children[at];
    tile.dataset.state = state;
    tile.classList.toggle("none", number === 0);
    write(tile.firstChild, String(number));
    write(tile.lastChild, state);
  });
}

function head(root) {
  const box = root.querySelector(".head");
  if (box.children.length) return;
  for (const name of CELLS) {
    const cell = element("div", "columnheader", name);
    cell.textContent = TITLES[name];
    cell.title = HELP[name] ?? "";
    box.append(cell);
  }
}

// The largest writing with which every row is on the screen, for nobody scrolls a wall: sinks that are well stand side by side where
// that makes it larger.
function fit(root) {
  root.style.removeProperty("--size");
  root.classList.remove("split");
  if (!root.classList.contains("kiosk")) return;
  const room = innerHeight - root.getBoundingClientRect().top - 4;
  const fits = (size, split) => {
    root.style.setProperty("--size", `${size}px`);
    root.classList.toggle("split", split);
    return root.offsetHeight <= room;
  };
  const largest = split => {
    let size = split ? Math.min(LARGEST, root.clientWidth / WIDE_EM) : LARGEST;
    while (size > SMALLEST && !fits(size, split)) size -= 0.5;
    return size;
  };
  const single = largest(false), double = largest(true);
  fits(Math.max(single, double), double > single);
}

// As the other pages write durations: below ten of a unit with the next smaller one.
function duration(ms) {
  const seconds = Math.floor(ms / 1000), first = UNITS.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  const [unit, size] = UNITS[first], count = Math.floor(seconds / size), [smaller, part] = UNITS[first + 1] ?? ["", Infinity];
  const more = count < 10 ? Math.floor(seconds % size / part) : 0;
  return more ? `${count} ${unit} ${more} ${smaller}` : `${count} ${unit}`;
}

// The look grows older in the browser, whatever the pace; silence is what lasts longer than the pace, and nothing where nothing is awaited.
function age(root) {
  const {seen, age_ms, silent_ms} = root.look, since = Date.now() - root.shownMs, silent = silent_ms !== null && since > silent_ms;
  root.classList.toggle("silent", silent);
  write(root.querySelector(".seen"), silent
    ? `The dashboard has not answered for ${duration(since)}: what is shown is as it was then.` : `${seen}, seen ${duration(age_ms + since)} ago`);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".fleet");
  root.known ??= new Map();
  root.shownMs = Date.now();
  root.open = setTriggerValue;
  root.classList.toggle("kiosk", data.kiosk);
  count(root, data.counts);
  head(root);
  const names = new Set(data.rows.map(one => one.sink));
  for (const name of [...root.known.keys()]) if (!names.has(name)) root.known.delete(name);
  place(root.querySelector(".look"), data.rows.filter(one => !one.well), root.known);
  place(root.querySelector(".fine"), data.rows.filter(one => one.well), root.known);
  root.look = data;
  age(root);
  fit(root);
  if (!root.clock) {
    root.clock = setInterval(() => age(root), 1000);
    root.resized = () => fit(root);
    addEventListener("resize", root.resized);
    root.addEventListener("click", event => {
      const row = event.target.closest(".row");
      if (!row || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      root.open("opened", row.dataset.sink);
    });
  }
  return () => {
    if (root.isConnected) return;
    clearInterval(root.clock);
    removeEventListener("resize", root.resized);
  };
}
