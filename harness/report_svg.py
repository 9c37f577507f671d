# SPDX-License-Identifier: GPL-2.0
"""report.svg, drawn by gnuplot: bench bars on the left, stress-ng and scaling on the right."""
import math
import subprocess

COLOURS = ("#9aa5b1", "#1f6fb4", "#e07b00", "#2a9d5c", "#8e44ad", "#c0392b")
WIDTH = 900
TOP = 122
SCALING = {"other_pair": ("lock + unlock by another owner", 1, 7),
           "own_pair": ("lock + unlock by their owner", 2, 5),
           "getlk": ("F_GETLK", 4, 9)}
SUBTITLES = {"instructions": "counted under QEMU -icount: instructions are not time",
             "ns": "wall time, medians over boots", "": "tests only"}
HEAD = """set terminal svg size %(width)d,%(height)d noenhanced font "sans-serif,12" \\
  background "white"
set multiplot
set border 3 lc rgb "#555555"
set tics nomirror
set grid lc rgb "#dddddd" lt 1
set style fill solid noborder
set label 1 "%(title)s" at screen 0.5,%(title_y)g center font "sans-serif,16"
set label 2 "%(subtitle)s" at screen 0.5,%(subtitle_y)g center tc rgb "#555555"
"""
TAIL = "unset multiplot\n"


class Script:
    """A gnuplot script: data blocks and the commands that use them."""

    def __init__(self, head):
        self.text, self.blocks = head, 0

    def data(self, rows):
        self.blocks += 1
        name = "$d%d" % self.blocks
        lines = [" ".join('"%s"' % cell if isinstance(cell, str) else "%.10g" % cell
                          for cell in row) for row in rows]
        self.text += "%s << EOD\n%s\nEOD\n" % (name, "\n".join(lines))
        return name

    def panel(self, left, right, top, bottom, title, commands, curves):
        self.text += ("set lmargin at screen %g\nset rmargin at screen %g\n"
                      "set tmargin at screen %g\nset bmargin at screen %g\n"
                      'set title "%s" font "sans-serif,12" offset 0,-0.3\n%s\nplot %s\n'
                      "unset label\nunset object\nunset logscale\nunset xlabel\nset autoscale\n"
                      % (left, right, top, bottom, title, commands, ", \\\n  ".join(curves)))


def clean(text):
    return "".join(char for char in text if char.isprintable() and char not in '"\\`')


def change_label(row, side):
    pct = row["change_pct"].get(side)
    proven = row["verdict"].get(side, "").startswith(("faster", "slower"))
    return " (%+.1f%%)" % pct if proven else ""


def highest(rows):
    return max(number for row in rows for number in row["values"].values())


def short(number):
    return "%.0fk" % (number / 1000) if number >= 10000 else "%.0f" % number


def round_step(least):
    power = 10 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def bar_panel(script, rows, sides, edges, title, names):
    """Horizontal bars, a group for each row and in it one for each side, with its value."""
    bars, labels, step = [], [], 0.8 / len(sides)
    for k, side in enumerate(sides):
        boxes, texts = [], []
        for i, row in enumerate(rows):
            if side["name"] in row["values"]:
                number, low = row["values"][side["name"]], i - 0.4 + k * step
                boxes.append((number, low, low + 0.92 * step))
                texts.append((number, low + step / 2, short(number)
                              + change_label(row, side["name"])))
        if boxes:
            bars.append('%s using (0):(0):(0):1:2:3 with boxxyerror lc rgb "%s" notitle'
                        % (script.data(boxes), COLOURS[k % len(COLOURS)]))
            labels.append("%s using 1:2:3 with labels left offset 0.5,0"
                          ' font "sans-serif,10" notitle' % script.data(texts))
    tics, most = ", ".join('"%s" %d' % (name, i) for i, name in enumerate(names)), highest(rows)
    script.panel(*edges, title, 'set key off\nset xrange [0:%g]\nset yrange [%g:-0.6]\n'
                 'set ytics (%s) scale 0\nset xtics 0,%g format "%s"\nset grid noytics xtics'
                 % (most * 1.5, len(rows) - 0.4, tics, round_step(most * 1.5 / 4),
                    "%.0s%c" if most >= 10000 else "%g"), bars + labels)


def bench_panel(script, data, edges):
    bar_panel(script, data["bench"], data["sides"], edges,
              "%s per operation (less is better)" % data["unit"],
              [row["op"] for row in data["bench"]])


def stress_panel(script, data, edges):
    second = "virtual second" if data["unit"] == "instructions" else "second"
    bar_panel(script, data["stress"], data["sides"], edges,
              "stress-ng, per %s (more is better)" % second,
              ["%s %s\\n%s" % (row["job"], row["stress_ng"], clean(row["kind"]))
               for row in data["stress"]])


def scaling_panel(script, data, edges):
    rows, curves = data["scaling"], []
    for k, side in enumerate(data["sides"]):
        for op, (_, dash, point) in SCALING.items():
            points = [(row["locks"], row["values"][side["name"]]) for row in rows
                      if row["op"] == op and side["name"] in row["values"]]
            if points:
                curves.append('%s using 1:2 with linespoints lc rgb "%s" lw 2 dt %d pt %d ps 0.6'
                              " notitle" % (script.data(points), COLOURS[k % len(COLOURS)],
                                            dash, point))
    curves += ['NaN with linespoints lc rgb "#333333" lw 2 dt %d pt %d ps 0.6 title "%s"'
               % (dash, point, name) for name, dash, point in SCALING.values()]
    script.panel(*edges, "%s per operation (less is better)" % data["unit"],
                 "set key at graph 0.02,0.98 top left Left reverse vertical samplen 3\n"
                 "set logscale xy\nset xrange [0.8:%g]\nset yrange [*:%g]\n"
                 'set xtics autofreq format "%%g"\nset ytics autofreq format "%%.0s%%c"\n'
                 'set grid xtics ytics\nset xlabel "locks held on the file" offset 0,0.4'
                 % (max(row["locks"] for row in rows) * 1.5, highest(rows) * 3), curves)


def legend(names, y, height):
    """Coloured boxes with the sides' names, centred under the subtitle."""
    widths = [(40 + 7 * len(name)) / WIDTH for name in names]
    x, text = 0.5 - sum(widths) / 2, ""
    for k, (name, width) in enumerate(zip(names, widths)):
        text += ('set object %d rectangle from screen %g,%g to screen %g,%g fc rgb "%s" lw 0\n'
                 % (k + 1, x, y - height / 2, x + 16 / WIDTH, y + height / 2,
                    COLOURS[k % len(COLOURS)]))
        text += 'set label %d "%s" at screen %g,%g left\n' % (k + 3, name, x + 22 / WIDTH, y)
        x += width
    return text


def script_of(data, incomplete):
    height = max(640, 170 + 15 * len(data["sides"]) * len(data["bench"]))
    panel_height = (height - TOP - 178) / 2

    def at(pixels):
        return 1 - pixels / height

    title = "POSIX file locks, Linux %(version)s: " % data["source"] + " / ".join(
        side["name"] for side in data["sides"])
    script = Script(HEAD % {
        "width": WIDTH, "height": height, "title": clean(title), "title_y": at(22),
        "subtitle_y": at(46),
        "subtitle": "INCOMPLETE: proves nothing" if incomplete else SUBTITLES[data["unit"]]})
    script.text += legend([side["name"] for side in data["sides"]], at(70), 14 / height)
    panels = [(data["bench"], bench_panel, (0.17, 0.5, at(TOP), at(height - 48))),
              (data["stress"], stress_panel, (0.65, 0.98, at(TOP), at(TOP + panel_height))),
              (data["scaling"], scaling_panel,
               (0.65, 0.98, at(height - 48 - panel_height), at(height - 48)))]
    for rows, panel, edges in panels:
        if rows:
            panel(script, data, edges)
    if not any(rows for rows, _, _ in panels):
        script.panel(0.1, 0.9, 0.8, 0.1, "no numbers", "set key off\nset xrange [0:1]\n"
                     "set yrange [0:1]\nunset border\nunset tics", ["NaN"])
    return script.text + TAIL


def draw(data, incomplete):
    done = subprocess.run(["gnuplot"], input=script_of(data, incomplete),
                          capture_output=True, text=True)
    if done.returncode or not done.stdout.rstrip().endswith("</svg>"):
        raise OSError("gnuplot: " + " ".join(done.stderr.split())[:300])
    return done.stdout
