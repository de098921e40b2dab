// What the demo's page looks like, and what is on it before its script fills it in.

#include "apps/r2ccl/demo/demo_page.h"

namespace r2ccl::apps {

const char* const kPageStyle = R"css(
:root {
  --ground: #f4f6f9; --card: #ffffff; --ink: #18212f; --muted: #5f6b7c; --rule: #e2e7ee;
  --flow: #2f6fdf; --flow-soft: #2f6fdf2e; --bad: #d3302f; --bad-soft: #d3302f24;
  --wait: #c27a00; --wait-soft: #dc8a0433;
  --good: #12855a; --good-soft: #12855a1c; --span: #18212f0b; --plan: #7a4fd0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0e131a; --card: #161d27; --ink: #e7ecf3; --muted: #93a0b4; --rule: #273242;
    --flow: #62a0ff; --flow-soft: #62a0ff38; --bad: #ff7065; --bad-soft: #ff706530;
    --wait: #f2b340; --wait-soft: #f2b34033;
    --good: #43d195; --good-soft: #43d1951f; --span: #ffffff0d; --plan: #b493ff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1180px; margin: 0 auto; padding: 36px 24px 56px; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 18px; margin-bottom: 22px; }
h1 { font-size: 27px; line-height: 1.2; margin: 0; letter-spacing: -0.01em; }
header p { flex-basis: 100%; margin: 0; color: var(--muted); }
h2 { font-size: 16px; margin: 0 0 2px; }
.hint { margin: 0 0 10px; color: var(--muted); font-size: 13.5px; }
.badge { padding: 4px 13px; border-radius: 99px; font-weight: 600; font-size: 13.5px; }
.badge.good { color: var(--good); background: var(--good-soft); }
.badge.bad { color: var(--bad); background: var(--bad-soft); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 18px 20px;
  margin-bottom: 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-bottom: 18px; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 12px 16px; }
.tile b { display: block; font-size: 23px; line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; }
.tile span { color: var(--muted); font-size: 13px; }
.faults { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 18px; margin-bottom: 18px; }
.faults .card { margin: 0; }
.faults h2 { font-size: 17px; display: flex; align-items: center; gap: 10px; }
.faults h2::before { content: ""; width: 10px; height: 10px; border-radius: 3px; background: var(--bad); }
.faults .hint { margin-bottom: 8px; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 3px 16px; margin: 0; font-variant-numeric: tabular-nums; }
dt { color: var(--muted); }
dd { margin: 0; text-align: right; white-space: nowrap; }
.steps { display: grid; grid-template-columns: repeat(3, 1fr); margin: 0 0 12px; padding: 9px 0 10px;
  text-align: center; border-block: 1px solid var(--rule); }
.steps b { display: block; font-size: 17px; font-variant-numeric: tabular-nums; }
.steps span { color: var(--muted); font-size: 12.5px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
.scroll { overflow-x: auto; }
#chart { min-width: 820px; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: var(--muted); }
svg .name { fill: var(--ink); font-weight: 600; font-size: 12.5px; }
svg .fault-name { fill: var(--bad); font-weight: 600; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .usual { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 4 4; }
svg .area { fill: var(--flow-soft); }
svg .nic { fill: none; stroke: var(--flow); stroke-width: 1.25; stroke-linejoin: round; }
svg .base { stroke: var(--rule); stroke-width: 1; }
svg .round { fill: none; stroke: var(--ink); stroke-width: 1.4; stroke-linejoin: round; }
svg .span { fill: var(--span); }
svg .broken { fill: var(--bad-soft); }
svg .returning { fill: var(--wait-soft); }
svg .edge { stroke: var(--bad); stroke-width: 1; }
svg .noticed { fill: var(--wait); stroke: var(--card); }
svg .repaired { fill: var(--good); stroke: var(--card); }
svg .back { fill: var(--flow); stroke: var(--card); }
svg .plan { fill: var(--plan); stroke: var(--card); }
svg .cross { stroke: var(--ink); stroke-width: 1; opacity: 0.55; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; margin-top: 8px; color: var(--muted); font-size: 13px; }
.legend span { display: inline-flex; align-items: center; gap: 7px; }
.legend svg { width: 14px; height: 14px; flex: none; }
table { width: 100%; border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--muted); font-weight: 500; padding: 4px 10px 6px 0; }
td { border-top: 1px solid var(--rule); padding: 5px 10px 5px 0; vertical-align: top; }
td:first-child, th:first-child { white-space: nowrap; text-align: right; width: 86px; padding-right: 22px; }
td:first-child { color: var(--muted); }
td i { display: inline-block; width: 9px; height: 9px; border-radius: 99px; margin-right: 11px;
  background: var(--muted); }
tr.fault td { font-weight: 600; } tr.fault td i { background: var(--bad); }
tr.heal td i { background: var(--good); } tr.plan td i { background: var(--plan); }
#tip { position: fixed; pointer-events: none; display: none; background: var(--card); border: 1px solid var(--rule);
  border-radius: 9px; box-shadow: 0 6px 22px #0003; padding: 8px 12px; font-size: 12.5px; white-space: pre;
  font-variant-numeric: tabular-nums; z-index: 2; }
)css";

const char* const kPageBody = R"html(
<main>
  <header><h1>R²CCL: AllReduce while NICs fail</h1><span id="verdict" class="badge"></span><p id="where"></p></header>
  <section class="tiles" id="tiles"></section>
  <section class="card">
    <h2>What every NIC sent</h2>
    <p class="hint" id="scale"></p>
    <div class="scroll">
      <svg id="chart" role="img" aria-label="Throughput of every NIC and time of every AllReduce"></svg>
    </div>
    <div class="legend" id="legend"></div>
  </section>
  <section class="faults" id="faults"></section>
  <section class="card"><h2>Events</h2><p class="hint">Seconds after the start.</p>
    <table id="events"><thead><tr><th>at</th><th>what happened</th></tr></thead><tbody></tbody></table></section>
  <noscript><p class="card">The figures on this page are drawn by its script, which is switched off.</p></noscript>
</main>
<div id="tip"></div>
)html";

}  // namespace r2ccl::apps
