// SPDX-License-Identifier: Apache-2.0
// The style of the page, for light and dark themes. It loads nothing.

export const PAGE_STYLE = `
:root{color-scheme:light dark;--ink:#1c2128;--faint:#59636e;--back:#ffffff;--line:#d9dee4;--band:#f4f6f8;--win:#0a6b2d;--loss:#a3260f}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--faint:#a3adb9;--back:#14181d;--line:#39414b;--band:#1c2229;--win:#63d98b;--loss:#ff9a80}}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;color:var(--ink);background:var(--back);margin:0 auto;padding:1.5rem;max-width:1120px}
h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
p.faint,td small{color:var(--faint)}p.skipped{border-left:4px solid var(--loss);padding:.2rem .8rem;background:var(--band)}
.wide{overflow-x:auto}svg{max-width:100%;height:auto}
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums;min-width:100%}
th,td{text-align:right;padding:.35rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th:first-child{text-align:left;white-space:normal;font-weight:500;min-width:13rem}thead th{font-weight:600;vertical-align:bottom}
th small{display:block;color:var(--faint);font-weight:400}td small{display:block}
.better{color:var(--win)}.worse{color:var(--loss)}
dt{font-weight:600;margin-top:.5rem}dd{margin:0 0 0 1rem;color:var(--faint)}
`.trim();
