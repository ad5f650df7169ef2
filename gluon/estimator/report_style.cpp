#include <sluice/gluon/detail/report_parts.h>

namespace sluice::gluon::detail {

namespace {

constexpr const char* k_style = R"css(
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #ffffff; --ink: #1b1f27; --quiet: #667085; --line: #e3e6ec; --grid: #eceff4;
  --train: #3b6fe0; --test: #e0662f; --right: 59, 111, 224; --wrong: 214, 69, 48; --strong: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12151b; --card: #1a1e26; --ink: #e8ebf1; --quiet: #98a2b3; --line: #2a303b; --grid: #252b35;
    --train: #7aa2ff; --test: #ff9a6b; --right: 92, 138, 245; --wrong: 236, 105, 84; --strong: #ffffff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 40px 20px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.02em; }
h2 { font-size: 17px; margin: 0 0 14px; letter-spacing: -0.01em; }
p { margin: 0; }
.quiet { color: var(--quiet); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 14px; margin: 26px 0 14px; }
.figure, section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  box-shadow: 0 1px 2px rgba(16, 24, 40, 0.04);
}
.figure { padding: 14px 18px; }
.figure b { display: block; font-size: 25px; line-height: 1.25; letter-spacing: -0.02em; font-variant-numeric: tabular-nums; }
.figure span { color: var(--quiet); font-size: 13px; }
section { padding: 20px 22px 22px; margin-top: 14px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 14px; }
.pair section { min-width: 0; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--quiet); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--line); stroke-width: 1; }
svg .train, svg .test { fill: none; stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round; }
svg .train { stroke: var(--train); }
svg .test { stroke: var(--test); }
svg circle.train { fill: var(--train); stroke: var(--card); }
svg circle.test { fill: var(--test); stroke: var(--card); }
.legend { display: flex; gap: 18px; margin: -6px 0 8px; font-size: 13px; color: var(--quiet); }
.legend i { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin-right: 7px; vertical-align: middle; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
table.matrix { font-size: 13px; width: 100%; border-collapse: separate; border-spacing: 2px; }
table.matrix th { font-weight: 500; color: var(--quiet); padding: 2px 6px; text-align: right; white-space: nowrap; }
table.matrix thead th { vertical-align: bottom; padding: 4px 0 6px; }
table.matrix thead th span { writing-mode: vertical-rl; transform: rotate(180deg); display: inline-block; }
table.matrix thead th { text-align: center; }
table.matrix td { text-align: center; padding: 0; height: 34px; min-width: 38px; border-radius: 5px; }
table.matrix td.none { color: var(--quiet); opacity: 0.45; }
table.matrix td.strong { color: var(--strong); }
table.list { width: 100%; }
table.list th, table.list td { padding: 6px 10px 6px 0; text-align: left; border-bottom: 1px solid var(--line); }
table.list thead th { color: var(--quiet); font-weight: 500; font-size: 13px; }
table.list tr:last-child td, table.list tbody tr:last-child th { border-bottom: 0; }
table.list tbody th { font-weight: 500; }
table.list .number { text-align: right; }
.bar { display: inline-block; width: 84px; height: 6px; border-radius: 3px; background: var(--grid); overflow: hidden; margin-left: 8px; vertical-align: middle; }
.bar i { display: block; height: 100%; background: var(--train); }
.mistakes { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(170px, 45%), 1fr)); gap: 18px 16px; }
.mistakes figure { margin: 0; }
.mistakes img { display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated; border-radius: 8px; border: 1px solid var(--line); background: #000; }
.mistakes figcaption { font-size: 13px; line-height: 1.35; margin-top: 7px; }
.mistakes b { color: rgb(var(--wrong)); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 20px; margin: 0; }
dt { color: var(--quiet); }
dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
footer { margin-top: 26px; color: var(--quiet); font-size: 13px; text-align: center; }
@media print { body { background: #fff; } section, .figure { break-inside: avoid; box-shadow: none; } }
)css";

}  // namespace

const char* report_style() {
  return k_style;
}

}  // namespace sluice::gluon::detail
