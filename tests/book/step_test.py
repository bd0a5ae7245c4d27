#!/usr/bin/env python3
"""Tests docs/book/step.py, which writes the page that steps through one training step.

    step_test.py STEP errors            a bad trace is one sentence and exit status 1
    step_test.py STEP browser PROGRAM   Chromium runs the page of the committed trace, and of one that PROGRAM (11_overlap)
                                        writes now; exit status 77 if there is no Chromium
"""
import html
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
program = sys.argv[1]
spec = importlib.util.spec_from_file_location("step", program)
step = importlib.util.module_from_spec(spec)
spec.loader.exec_module(step)
figures = step.book / "figures"
committed = [str(figures / "11_profile.json"), str(figures / "11_overlap.json")]
wrong = []


def expect(what, found, expected):
    if found != expected:
        wrong.append(f"{what}: expected {expected!r}, got {found!r}")


def errors(scratch):
    def fails(text, *traces):
        paths = []
        for number, trace in enumerate(traces):
            paths.append(scratch / f"{number}.json")
            paths[-1].write_text(trace)
        command = [sys.executable, program, *map(str, paths or [scratch / "absent.json"]), str(scratch / "page.html")]
        ended = subprocess.run(command, capture_output=True, text=True)
        expect(f"status ({text})", ended.returncode, 1)
        if text not in ended.stderr or ended.stderr.count("\n") != 1:
            wrong.append(f"expected one line with '{text}', got '{ended.stderr}'")
        expect(f"a page was written ({text})", (scratch / "page.html").exists(), False)

    profile, timeline = (pathlib.Path(path).read_text() for path in committed)
    event = lambda **more: json.dumps({"traceEvents": [{"ph": "X", "name": "profile", "cat": "profile", "ts": 1, "dur": 9, "pid": 0, "tid": 0, **more}]})
    fails("absent.json: No such file or directory")
    fails("0.json is not a trace in Chrome's format", "")
    fails("0.json is not a trace in Chrome's format", profile[:3000])
    fails("0.json is not a trace in Chrome's format", "[1, 2]")
    fails("0.json is not a trace in Chrome's format", '{"traceEvents": [7]}')
    fails("0.json is not a trace in Chrome's format", event(ts="soon"))
    fails("0.json is not a trace in Chrome's format", event(args=[3]))
    fails("0.json is not a trace in Chrome's format", event(args={"shapes": 5}))
    fails("0.json is not a trace in Chrome's format", event(args={"queued ms": "2"}))
    fails("0.json is not a trace in Chrome's format: KeyError: 'dur'", event().replace('"dur": 9, ', ""))
    fails("0.json has no events", '{"traceEvents": []}')
    fails("are profiles, but one must be", timeline)
    fails("are profiles, but one must be", profile, profile)
    fails("the profile has no backward", event())
    step.LINES["tape"] = ("autograd/engine.cpp", "a text that moved away")
    try:
        step.page_of(committed)
        wrong.append("a text that no source contains is not noticed")
    except SystemExit as error:
        expect("a moved line", error.code, 'step.py: 0 lines of autograd/engine.cpp contain "a text that moved away", but one must: '
               "change LINES in docs/book/step.py")


# Presses the buttons as a reader does, and leaves what the page showed as JSON.
DRIVER = """<script>
const texts = () => Object.fromEntries(["count", "now", "tape", "tape_count", "buckets", "flight", "memory", "sources", "code"].map(
  id => [id, id == "tape" ? [...$(id).children].map(e => e.className + ": " + e.textContent).join(", ") : $(id).textContent]));
const first = $("count").textContent, seen = [], faults = [];
go(0);
for (let k = 0; k <= last; ++k, $("next").click()) seen.push(texts());
const check = (what, k) => { if (JSON.stringify(texts()) != JSON.stringify(seen[k])) faults.push(what + " to event " + k); };
check("next at the end leads", last);
for (let k = last - 1; k >= 0; --k) { $("back").click(); check("back leads", k); }
const key = key => dispatchEvent(new KeyboardEvent("keydown", {key}));
key("ArrowLeft"); check("the left arrow leads", 0);
key("ArrowRight"); key("ArrowRight"); check("the right arrow leads", 2);
$("slider").value = 5; $("slider").dispatchEvent(new Event("input")); check("the slider leads", 5);
document.body.replaceChildren(Object.assign(document.createElement("pre"), {id: "report",
  textContent: JSON.stringify({first, seen, faults, images: document.images.length, hash: location.hash})}));
</script>"""


def in_browser(scratch, chromium, traces, event):
    """What the page of the traces shows at each event. It is opened at `event`."""
    page = scratch / "page.html"
    ended = subprocess.run([sys.executable, program, *traces, str(page)], capture_output=True, text=True)
    expect("step.py", (ended.returncode, ended.stderr), (0, ""))
    if re.search(r'(src|href)="|https?://', page.read_text().split("<script>")[0]):
        wrong.append("the page asks for something that is not in it")
    page.write_text(page.read_text().replace("</html>", DRIVER + "</html>"))
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}/browser", "--enable-logging=stderr",
               "--virtual-time-budget=10000", "--dump-dom", f"file://{page}#{event}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    wrong.extend(line for line in ended.stderr.split("\n") if "CONSOLE" in line)
    report = re.search(r'<pre id="report">(.*?)</pre>', ended.stdout, re.S)
    if not report:
        wrong.append("the browser did not run the page: " + ended.stderr[-500:])
        return []
    report = json.loads(html.unescape(report[1]))
    wrong.extend(report["faults"])
    expect("the event in the address", report["first"], f"{event} of {len(report['seen'])}")
    expect("images", report["images"], 0)
    for number, shown in enumerate(report["seen"], 1):
        expect("the number of the event", shown["count"], f"{number} of {len(report['seen'])}")
        if not shown["sources"]:
            wrong.append(f"event {number} ({shown['now']}) has no source line")
    return report["seen"]


def check_any(seen):
    """What holds for a step of 11_overlap, whatever its times are: five ops, eight parameters, four buckets of two."""
    at = lambda text: next((i for i, s in enumerate(seen) if s["now"].startswith(text)), None)
    steps = {text: at(text) for text in ("zero_grad", "mean", "backward begins", "the gradient of fc4.weight", "the gradient of fc4.bias",
                                         "all_reduce of bucket 1 of 4 (fc4.bias … fc4.weight) is launched", "wait for gradients", "SGD step")}
    expect("the order of the events", list(steps.values()), sorted(steps.values(), key=lambda i: -1 if i is None else i))
    if None in steps.values():
        return
    counts = lambda text: seen[at(text)]["tape_count"].split(". ")[0]
    expect("the tape at first", counts("zero_grad"), "0 nodes wait on the tape, 0 have run")
    expect("the tape after forward", counts("backward begins"), "13 nodes wait on the tape, 0 have run")
    expect("the tape in backward", counts("the gradient of fc4.weight"), "10 nodes wait on the tape, 3 have run")
    expect("the tape at last", counts("SGD step"), "0 nodes wait on the tape, 13 have run")
    expect("the buckets at first", re.findall(r"bucket (\d): ([a-z0-9 ]*)fc", seen[0]["buckets"]), [(str(b), "0 of 2") for b in (1, 2, 3, 4)])
    expect("a bucket of one gradient", seen[at("the gradient of fc4.weight")]["buckets"].split("fc")[0], "bucket 1: 1 of 2")
    expect("a full bucket", seen[at("the gradient of fc4.bias")]["buckets"].split("fc")[0], "bucket 1: full")
    launched = seen[at("all_reduce of bucket 1 of 4 (fc4.bias … fc4.weight) is launched")]
    if not re.search("rank 0: bucket 1 (queued|in flight)", launched["flight"]):
        wrong.append(f"a launched bucket is not in flight: {launched['flight']}")
    done = next((s for s in seen if s["now"].startswith("all_reduce of bucket 1 of 4 (fc4.bias … fc4.weight) is done")), seen[0])
    expect("a bucket that is done", done["buckets"].split("fc")[0], "bucket 1: averaged")
    expect("the buckets at last", re.findall(r"bucket (\d): averaged", seen[-1]["buckets"]), ["1", "2", "3", "4"])
    expect("the flights at last", re.findall(r"rank 0", seen[-1]["flight"]), [])
    if not re.fullmatch(r"[\d.]+ [MK]iB", seen[-1]["memory"]):
        wrong.append(f"the memory at last is {seen[-1]['memory']}")


def browser(scratch, overlap):
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        print("chromium is not installed (scripts/setup.sh extra): the page was not opened")
        sys.exit(77)
    seen = in_browser(scratch, chromium, committed, 17)
    check_any(seen)
    if len(seen) == 41:
        expect("the tape at event 16", seen[15]["tape"], "node live: linear of fc1, node leaf live: fc1.weight, node leaf live: fc1.bias, "
               "node live: linear of fc2, node leaf live: fc2.weight, node leaf live: fc2.bias, node live: linear of fc3, "
               "node leaf live: fc3.weight, node leaf live: fc3.bias, node ran: linear of fc4, node leaf ran this: fc4.weight, "
               "node leaf live: fc4.bias, node ran: mean")
        expect("the memory before the first op", seen[0]["memory"], "not recorded")
        expect("the memory after forward", seen[10]["memory"], "2.25 MiB")
        expect("the memory at last", seen[40]["memory"], "1.38 MiB")
        expect("the flights at event 18", seen[17]["flight"], "rank 0: bucket 1 queued")
    else:
        wrong.append(f"the committed trace has {len(seen)} events")

    subprocess.run([overlap, str(scratch)], check=True, stdout=subprocess.DEVNULL)
    check_any(in_browser(scratch, chromium, [str(scratch / "11_profile.json"), str(scratch / "11_overlap.json")], 1))

    for path in committed:  # names in a trace are text, not HTML
        text = pathlib.Path(path).read_text().replace("fc1", "</script><!--<script><img src=x>")
        (scratch / pathlib.Path(path).name).write_text(text)
    hostile = in_browser(scratch, chromium, [str(scratch / "11_profile.json"), str(scratch / "11_overlap.json")], 3)
    expect("a name with HTML", hostile[2]["now"].split("The forward")[0] if hostile else "", "module </script><!--<script><img src=x>")


with tempfile.TemporaryDirectory() as folder:
    errors(pathlib.Path(folder)) if sys.argv[2] == "errors" else browser(pathlib.Path(folder), sys.argv[3])
print("\n".join(wrong))
sys.exit(bool(wrong))
