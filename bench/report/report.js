// The episodes of a report: found by text, category, ending and outcome, and read one by one. What
// a trace says becomes text nodes only.

(() => {
  const AT_ONCE = 50;
  const byId = (id) => document.getElementById(id);
  const episodes = JSON.parse(byId("data").textContent);
  const fields = ["text", "category", "ending", "outcome"].map((name) => byId(`by-${name}`));
  let chosen = [];
  let shown = 0;

  function el(tag, about, ...children) {
    const made = document.createElement(tag);
    const { class: kind, ...attributes } = about;
    if (kind) made.className = kind;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== null && child !== ""));
    return made;
  }

  const OUTCOMES = {
    passed: (episode) => episode.passed,
    "not passed": (episode) => !episode.passed,
    "answered wrongly": (episode) => episode.wrong,
    "a call failed": (episode) => episode.tool_calls.some(({ ok, step }) => !ok && step > 0),
    "no call": (episode) => episode.tool_calls.length === 0,
    infrastructure: (episode) => episode.infrastructure,
  };

  for (const [name, of] of [
    ["category", (episode) => episode.category],
    ["ending", (episode) => episode.ending],
  ]) {
    const values = [...new Set(episodes.map(of))].sort();
    byId(`by-${name}`).append(...values.map((value) => el("option", { value: `=${value}` }, value || "none")));
  }

  // What is searched in an episode, made when it is first needed.
  const words = new WeakMap();
  function wordsOf(episode) {
    if (!words.has(episode)) {
      const { episode: name, category, question, error, ...of } = episode;
      const called = episode.tool_calls.flatMap((one) => [
        ...[one.tool_name, one.code, one.parameters, one.output],
      ]);
      const texts = [of.source_dataset, of.ground_truth, of.execution_result];
      const all = [name, category, question, error, ...texts, ...called];
      words.set(episode, [...all, ...episode.response].join("\n").toLowerCase());
    }
    return words.get(episode);
  }

  function choose() {
    const [text, category, ending, outcome] = fields.map((field) => field.value);
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    chosen = episodes.filter(
      (episode) =>
        (category === "any" || episode.category === category.slice(1)) &&
        (ending === "any" || episode.ending === ending.slice(1)) &&
        (outcome === "any" || OUTCOMES[outcome](episode)) &&
        wanted.every((word) => wordsOf(episode).includes(word)),
    );
    shown = 0;
    byId("list").replaceChildren();
    showMore();
  }

  function showMore() {
    const next = chosen.slice(shown, shown + AT_ONCE);
    byId("list").append(...next.map(row));
    shown += next.length;
    byId("more").hidden = shown === chosen.length;
    byId("found").textContent =
      `${chosen.length} of ${episodes.length} episodes` +
      (shown < chosen.length ? `, the first ${shown} are listed` : "");
  }

  function row(episode) {
    const ended = episode.tool_calls.length ? "failed" : "no call";
    const outcome = !episode.passed ? ended : episode.wrong ? "wrong" : "passed";
    const kind = outcome === "passed" ? "mark good" : "mark bad";
    const where = `${episode.episode} · ${episode.category}`;
    const made = el(
      "details",
      { class: "episode" },
      el(
        "summary",
        {},
        el("span", {}, el("span", { class: kind }, outcome)),
        el("span", { class: "question" }, episode.question || "(no question)"),
        el("span", { class: "where" }, where),
      ),
    );
    made.addEventListener("toggle", () => made.children.length > 1 || made.append(inside(episode)));
    return made;
  }

  function inside(episode) {
    const { judgement, labelled_tools: labelled } = episode;
    const asked = [...episode.model_calls, ...(judgement?.model_calls ?? [])];
    // A run that offers no tools has the labelled ones in their place.
    const isOffered = episode.candidate_tools.join() !== labelled.join();
    const called = new Set(episode.tool_calls.map((one) => one.tool_name));
    const steps = [...new Set(episode.tool_calls.map(({ step }) => step))];
    return el(
      "div",
      { class: "inside" },
      list([
        ["Answer", episode.execution_result || "none"],
        ["Gold answer", episode.ground_truth || "none"],
        ["Ending", episode.ending + (episode.error ? `: ${episode.error}` : "")],
        ["Failed through", episode.infrastructure && "nobody but a quota, the gateway or the model"],
        ["Took", duration(episode.elapsed_ms / 1000)],
        ["Judgement", judgement && judged(judgement)],
        ["Labelled, ✓ called", tags(labelled, called)],
        ["Offered, ✓ called", tags(isOffered ? episode.candidate_tools : [], called)],
      ]),
      ...steps.map((step) =>
        el(
          "div",
          {},
          el("h3", {}, `Round ${step}`),
          ...episode.tool_calls.filter((one) => one.step === step).map(call),
        ),
      ),
      ...episode.response.map((text, n) =>
        el("div", {}, el("h3", {}, `Response ${n + 1}`), el("pre", {}, text)),
      ),
      ...(asked.length ? [requests(asked)] : []),
      ...judgesWords(judgement?.model_calls ?? []),
      ...(episode.transcript?.length ? [transcript(episode.transcript)] : []),
    );
  }

  function list(pairs) {
    const there = pairs.filter(([, value]) => value);
    return el("dl", {}, ...there.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }

  function tags(names, called) {
    if (names.length === 0) return null;
    return el(
      "ul",
      { class: "tags" },
      ...names.map((name) => el("li", {}, called.has(name) ? `✓ ${name}` : name)),
    );
  }

  function judged({ judge, kind, scores, invalid, error, tools }) {
    const said = [`by ${judge}, as ${kind}`];
    said.push(scores.length ? `scores ${scores.join(", ")}` : "no score");
    if (invalid) said.push(`${invalid} invalid`);
    if (error) said.push(`the judge failed: ${error}`);
    for (const verdict of tools) {
      const marks = ["timeliness", "intent", "domain"]
        .filter((name) => verdict[name] !== null)
        .map((name) => `${name} ${verdict[name] ? "matches" : "does not match"}`);
      if (marks.length) said.push(`${verdict.tool}: ${marks.join(", ")}`);
    }
    return said.join("; ");
  }

  function call(made) {
    const outcome = made.ok
      ? el("span", { class: "mark good" }, made.source || "answered")
      : el("span", { class: "mark bad" }, `${made.code || "failed"} · ${made.fault || "unknown"}`);
    const parts = [
      ["arguments", made.parameters],
      [made.ok ? "output" : "error", made.output],
      ["what the agent read of it", made.observed],
    ].filter(([, text]) => text !== null);
    return el(
      "div",
      { class: "call" },
      el("p", {}, el("b", { class: "mono" }, made.tool_name), outcome, duration(made.elapsed_ms / 1000)),
      ...parts.flatMap(([name, text]) => [el("h4", {}, name), pre(text)]),
    );
  }

  // What the judge answered, with its reasons.
  function judgesWords(made) {
    const said = made.filter(({ reply }) => reply);
    return said.length ? [el("div", {}, el("h3", {}, "The judge said"), ...said.map(({ reply }) => pre(reply)))] : [];
  }

  // All that went to models and came from them, folded.
  function transcript(requests) {
    const made = el("details", { class: "transcript" }, el("summary", {}, "Transcript: what models were sent and answered"));
    const parts = () =>
      requests.map((one) =>
        one.not_kept
          ? el("p", { class: "note" }, `${one.not_kept} more requests were not kept: the episode is too long`)
          : one.left_out
          ? el("p", { class: "note" }, `${one.left_out} more requests: finbench export --format transcripts has them`)
          : el(
              "div",
              { class: "call" },
              el("p", {}, el("b", {}, one.purpose), el("span", {}, one.model), one.step ? `before round ${one.step}` : ""),
              one.kept ? el("p", { class: "note" }, `${one.kept} messages as before`) : null,
              one.tools.length ? el("p", { class: "note" }, `tools: ${one.tools.join(", ")}`) : null,
              ...one.said.flatMap(({ role, text }) => [el("h4", {}, role), pre(text)]),
            ),
      );
    made.addEventListener("toggle", () => made.children.length > 1 || made.append(...parts()));
    return made;
  }

  // What may have to be scrolled can be reached by keyboard.
  function pre(text) {
    const long = text.length > 400 || text.split("\n").length > 8;
    return el("pre", long ? { tabindex: 0 } : {}, text);
  }

  function requests(made) {
    const heads = ["before round", "purpose", "model", "input", "cached", "output", "took", "end"];
    const rows = made.map((one) => [
      ...[one.step, one.purpose, one.model, one.input_tokens, one.cached_tokens],
      ...[one.output_tokens, duration(one.elapsed_ms / 1000)],
      one.error || one.finish || "",
    ]);
    const table = el(
      "table",
      {},
      el("caption", {}, "Requests to models, in tokens"),
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell) => el("td", {}, `${cell}`))))),
    );
    return el("div", { class: "scroll", tabindex: 0 }, table);
  }

  for (const field of fields) field.addEventListener("input", choose);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", () => {
    const before = shown;
    showMore();
    byId("list").children[before]?.firstChild.focus();
  });
  choose();
})();
