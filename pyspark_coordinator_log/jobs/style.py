"""The style sheet of the report, beside that of all pages (page/static/base.css)."""

STYLE = """
.up{margin:0}
.answer{font-size:17px;margin:16px 0}
.key{font-size:12px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin:18px 0}
.figures div{background:var(--tint);border:1px solid var(--line);border-radius:6px;padding:10px 14px}
.figures dt{color:var(--soft);font-size:12px}
.figures dd{margin:0;font-size:22px;font-variant-numeric:tabular-nums}
.figures div{font-weight:400}.figures .bad dd,.figures .warn dd{font-weight:600}
.figures .bad{border-color:var(--bad);background:var(--alarm)}
.swatch{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:5px;vertical-align:-1px}
.meter{display:flex;width:150px;height:10px;margin-top:5px}
.meter i{background:#d9a441}.meter i+i{background:#c0392b}
footer{margin-top:40px;border-top:1px solid var(--line);padding-top:10px;font-size:12px}
@media(max-width:700px){.answer{font-size:16px}.figures{grid-template-columns:1fr 1fr;gap:8px}}
@media print{section{break-inside:avoid-page}}
@media(forced-colors:active){.swatch,.meter i{forced-color-adjust:none}}
"""
