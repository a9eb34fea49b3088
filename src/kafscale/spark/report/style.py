"""How the page of statistics looks: colours for light and dark, type, cards, tables."""

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #fdfcfa; --card: #ffffff; --ink: #23262b; --quiet: #6b7078; --line: #dcdad5;
  --c1: #2f6f8f; --c2: #d07b3a; --c3: #5b8f5a; --c4: #a2557d; --c5: #8a7a3c; --c6: #6f6fae;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181b; --card: #1e2125; --ink: #e4e2dd; --quiet: #9a9ea6; --line: #383c42;
    --c1: #6fb3d2; --c2: #e8a26a; --c3: #8fc58c; --c4: #d48db2; --c5: #cdbb72; --c6: #a5a5e0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0; letter-spacing: -0.01em; }
h1 { overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 0.3rem; }
p { color: var(--quiet); max-width: 44rem; margin: 0 0 0.8rem; }
.facts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(8.6rem, 1fr));
  gap: 0.75rem; margin: 1.6rem 0 0;
}
.facts div, figure {
  background: var(--card); border: 1px solid var(--line); border-radius: 0.6rem;
}
.facts div { padding: 0.75rem 1rem; }
.facts b {
  display: block; font-size: 1.3rem; font-weight: 600; white-space: nowrap;
  font-variant-numeric: tabular-nums;
}
.facts span { color: var(--quiet); font-size: 0.85rem; }
figure { margin: 0.8rem 0 0; padding: 0.9rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit !important; }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.88rem; margin-top: 0.8rem; }
th, td {
  text-align: right; padding: 0.35rem 0.7rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums;
}
th { color: var(--quiet); font-weight: 500; }
th.text, td.text { text-align: left; }
"""
