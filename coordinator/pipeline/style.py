"""The style sheet of all pages: light and dark, from a phone's width on, and printable."""

_CLIENTS = (
    "#2f62a8",
    "#b45309",
    "#2f7d3e",
    "#7e4fa0",
    "#8a6a00",
    "#0f766e",
    "#b03a5b",
    "#5f6b1f",
    "#8a4f2a",
    "#4a5fc1",
)
"""White text is readable on each."""
_CAUSES = ("#f26d6d", "#f5a623", "#f2d13c", "#58b9f0", "#a9a4f5", "#b9c0c8", "#7bd0b0")
"""In the order of rebalance_causes.KINDS; dark text is readable on each."""

STYLE = (
    """
:root{color-scheme:light dark;--ink:#1d2733;--soft:#55626f;--line:#dfe4ea;--back:#fff;--tint:#f4f6f8;--bad:#b3261e;
--good:#216e41;--warn:#8a5a00;--link:#2457a6;--note:#fff6df;--alarm:#fdf0ef;--names:150px}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--soft:#a3aeb9;--line:#333d47;--back:#14191e;--tint:#1d242b;--bad:#ff8a80;
--good:#7fd69b;--warn:#f0b955;--link:#8ab8ff;--note:#2e2716;--alarm:#331b1a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:28px 30px 40px;font:14px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
color:var(--ink);background:var(--back)}
h1{font-size:26px;margin:0 0 2px;overflow-wrap:anywhere}
h2{font-size:17px;margin:34px 0 10px;padding-bottom:5px;border-bottom:1px solid var(--line)}
p{margin:6px 0 10px}
a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}
:focus-visible{outline:2px solid var(--link);outline-offset:1px}
.skip{position:absolute;left:-9999px}.skip:focus{position:static}
.about,.key,footer,.nothing{color:var(--soft)}.about{overflow-wrap:anywhere}
.key{font-size:12px}
.answer{font-size:17px;margin:16px 0}
.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.warn{color:var(--warn);font-weight:600}
.note{background:var(--note);border-left:3px solid #d9a441;padding:7px 12px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin:18px 0}
.figures div{background:var(--tint);border:1px solid var(--line);border-radius:6px;padding:10px 14px}
.figures dt{color:var(--soft);font-size:12px}
.figures dd{margin:0;font-size:22px;font-variant-numeric:tabular-nums}
.figures div{font-weight:400}.figures .bad dd,.figures .warn dd{font-weight:600}
.figures .bad{border-color:var(--bad);background:var(--alarm)}
.wide{overflow-x:auto;margin:0 0 16px}
table{border-collapse:collapse;width:100%;font-size:13px}
th{text-align:left;color:var(--soft);font-weight:600;font-size:12px;white-space:nowrap}
th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
td{min-width:48px}.whole{white-space:nowrap}td.text{min-width:160px;overflow-wrap:anywhere}
code,.time{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:nowrap}
tr:target{background:var(--note)}
.n{text-align:right;font-variant-numeric:tabular-nums;padding-right:14px;white-space:nowrap}
.chart{position:relative;margin:0 0 8px;font-size:11px;line-height:14px}
.row{display:grid;grid-template-columns:var(--names) 1fr;height:18px}
.name{text-align:right;padding-right:8px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;direction:rtl}
.name bdi{direction:ltr}
.lane{position:relative;background:var(--tint);height:14px}
.lane:focus-visible{z-index:3}
.lane:focus-visible::after,.bar:focus-visible::after{content:attr(aria-label);position:absolute;left:0;top:16px;z-index:4;
background:var(--ink);color:var(--back);padding:4px 8px;border-radius:4px;white-space:pre-line;min-width:220px;max-width:70vw}
.bar{position:absolute;top:0;height:14px;min-width:1px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis;padding:0;
box-shadow:inset 1px 0 var(--back);color:#fff;text-decoration:none;font-weight:500}
a.bar:focus-visible{overflow:visible}
.bar span{padding:0 5px}
.rebalances .bar{color:#1d2733;min-width:2px}
.upper{height:7px}.lower{top:7px;height:7px}
.mark{position:absolute;top:0;width:0;line-height:14px}
.cross::before{content:"✕";position:absolute;left:-6px;color:#fff;background:#c0392b;width:12px;height:12px;top:1px;
border-radius:2px;text-align:center;line-height:12px;font-weight:700;font-size:9px}
.ring::before{content:"";position:absolute;left:-4px;top:3px;width:8px;height:8px;border-radius:50%;background:#fff;
border:2px solid #333}
.lines{position:absolute;left:var(--names);right:0;top:0;bottom:20px;pointer-events:none}
.lines i{position:absolute;top:0;bottom:0;border-left:1px solid var(--line)}
.ticks{position:relative;height:18px;margin-left:var(--names);color:var(--soft)}
.ticks span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.ticks .start{transform:none}.ticks .end{transform:translateX(-100%)}
.steps{height:84px}.steps .lane,.steps .row{height:78px;background:none}
.steps svg{position:absolute;width:100%;height:78px}
.steps path{fill:none;stroke:var(--link);stroke-width:2;vector-effect:non-scaling-stroke}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12px;color:var(--soft);margin:8px 0}
.swatch{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:5px;vertical-align:-1px}
.meter{display:flex;width:150px;height:10px;margin-top:5px}
.meter i{background:#d9a441}.meter i+i{background:#c0392b}
footer{margin-top:40px;border-top:1px solid var(--line);padding-top:10px;font-size:12px}
.others,.k-unknown{background:#66717c}
"""
    + "".join(f".c{place}{{background:{colour}}}" for place, colour in enumerate(_CLIENTS))
    + "".join(f".k{place}{{background:{colour}}}" for place, colour in enumerate(_CAUSES))
    + """
@media(max-width:700px){body{padding:18px 14px 30px}:root{--names:84px}h1{font-size:22px}.answer{font-size:16px}
.figures{grid-template-columns:1fr 1fr;gap:8px}.bar:not(.wide-bar) span{display:none}.ticks .odd{display:none}}
@media print{body{padding:0;max-width:none}.wide{overflow:visible}section{break-inside:avoid-page}}
@media(forced-colors:active){.bar,.swatch,.meter i,.cross::before,.ring::before{forced-color-adjust:none}}
"""
)
