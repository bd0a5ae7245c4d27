#pragma once
// The style of report.html. Colours are variables, so that dark mode is another set of them. For
// --heat, each cell sets the opacity. Internal.

namespace rondo::train {

inline constexpr const char* report_style = R"css(
:root {
  color-scheme: light dark;
  --page: #fbfaf8; --card: #ffffff; --ink: #1f2328; --faint: #656d76; --rule: #dedbd5;
  --heat: 37, 99, 200; --bad: #b42318;
  --series-1: #2563c8; --series-2: #d9730d; --series-3: #0f8a6d; --series-4: #8b46c1;
  --series-5: #b83280; --series-6: #6b7280;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16181c; --card: #1e2126; --ink: #e4e6e9; --faint: #9aa2ac; --rule: #363b43;
    --heat: 96, 156, 255; --bad: #ff8a7a;
    --series-1: #6ba4ff; --series-2: #f2a154; --series-3: #4fc9a8; --series-4: #c192f0;
    --series-5: #f083be; --series-6: #a3abb6;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", sans-serif;
}
main { max-width: 1160px; margin: 0 auto; padding: 40px 28px 64px; }
h1 { font-size: 28px; font-weight: 600; letter-spacing: -0.01em; margin: 0 0 20px; }
h2 { font-size: 19px; font-weight: 600; margin: 44px 0 6px; }
h2 + p { margin-top: 0; }
h3 { font-size: 15px; font-weight: 600; margin: 0 0 6px; }
p { max-width: 74ch; margin: 6px 0 14px; color: var(--faint); }
.key { display: flex; flex-wrap: wrap; gap: 12px; }
.key div {
  background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 10px 16px;
}
.key dt { color: var(--faint); font-size: 13px; }
.key dd { margin: 0; font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; }
dl { margin: 0; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 16px; }
.card {
  background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 14px 16px;
  overflow-x: auto;
}
svg { display: block; width: 100%; height: auto; max-width: 720px; }
svg text { fill: var(--faint); font-size: 11.5px; font-family: inherit; }
svg text.title { fill: var(--ink); font-size: 14px; font-weight: 600; }
svg .axis { stroke: var(--faint); stroke-width: 1; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .limit { stroke: var(--bad); stroke-width: 1.2; stroke-dasharray: 4 3; }
svg .series { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.series-1 { stroke: var(--series-1); } .mark-1, .span-1 { fill: var(--series-1); }
.series-2 { stroke: var(--series-2); } .mark-2, .span-2 { fill: var(--series-2); }
.series-3 { stroke: var(--series-3); } .mark-3, .span-3 { fill: var(--series-3); }
.series-4 { stroke: var(--series-4); } .mark-4, .span-4 { fill: var(--series-4); }
.series-5 { stroke: var(--series-5); } .mark-5, .span-5 { fill: var(--series-5); }
.series-6 { stroke: var(--series-6); } .mark-6, .span-6 { fill: var(--series-6); }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 10px; text-align: right; white-space: nowrap; }
th { font-weight: 600; color: var(--faint); }
thead th { border-bottom: 1px solid var(--rule); }
tbody tr + tr td, tbody tr + tr th { border-top: 1px solid var(--rule); }
th.text, td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.bar { width: 130px; padding-right: 0; }
.bar i {
  display: block; height: 10px; border-radius: 2px; background: var(--series-1);
  width: calc(var(--share) * 100%); min-width: 1px;
}
.confusion td { min-width: 46px; background: rgba(var(--heat), calc(var(--share) * 0.85)); }
.confusion td.none { color: var(--faint); background: none; }
.confusion td.strong { color: #fff; }
@media (prefers-color-scheme: dark) { .confusion td.strong { color: #0d1117; } }
.confusion td.recall { background: none; font-weight: 600; }
.confusion thead th { max-width: 120px; white-space: normal; vertical-align: bottom; overflow-wrap: break-word; }
.worst { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 12px; }
.worst figure {
  margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  padding: 10px; font-size: 13px; line-height: 1.4; overflow-wrap: anywhere;
}
.worst img {
  width: 100%; aspect-ratio: 1; object-fit: contain; image-rendering: pixelated; display: block;
  margin-bottom: 8px; border-radius: 4px;
}
.worst .wrong { color: var(--bad); }
.worst small { color: var(--faint); display: block; }
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --ink: #000; --faint: #444; --rule: #ccc;
    --heat: 37, 99, 200; --bad: #b42318; --series-1: #2563c8; --series-2: #d9730d; --series-3: #0f8a6d; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  .card, figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
)css";

}  // namespace rondo::train
