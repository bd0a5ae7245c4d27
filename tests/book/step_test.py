#!/usr/bin/env python3
"""Tests docs/book/step.py, which writes the page that steps through one training step.

    step_test.py STEP errors            a bad trace is one sentence and exit status 1
    step_test.py STEP browser           Chromium runs the page of the committed traces
    step_test.py STEP browser COMMAND…  the same with the traces that COMMAND writes now to the files after --profile and --trace;
                                        exit status 77 if there is no Chromium
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
const first = $("count").textContent, seen = [], faults = [], end = Math.min(last, EVENTS - 1);
go(0);
for (let k = 0; k <= end; ++k, $("next").click()) seen.push(texts());
const check = (what, k) => { if (JSON.stringify(texts()) != JSON.stringify(seen[k])) faults.push(what + " to event " + k); };
if (end == last) check("next at the end leads", last);
else go(end);
for (let k = end - 1; k >= 0; --k) { $("back").click(); check("back leads", k); }
const key = key => dispatchEvent(new KeyboardEvent("keydown", {key}));
key("ArrowLeft"); check("the left arrow leads", 0);
key("ArrowRight"); key("ArrowRight"); check("the right arrow leads", 2);
$("slider").value = 5; $("slider").dispatchEvent(new Event("input")); check("the slider leads", 5);
document.body.replaceChildren(Object.assign(document.createElement("pre"), {id: "report",
  textContent: JSON.stringify({first, seen, faults, images: document.images.length, hash: location.hash})}));
</script>"""


def in_browser(scratch, chromium, traces, event, events=1000):
    """What the page of the traces shows at each of the first `events` events. It is opened at `event`."""
    page = scratch / "page.html"
    ended = subprocess.run([sys.executable, program, *traces, str(page)], capture_output=True, text=True)
    expect("step.py", (ended.returncode, ended.stderr), (0, ""))
    if re.search(r'(src|href)="|https?://', page.read_text().split("<script>")[0]):
        wrong.append("the page asks for something that is not in it")
    page.write_text(page.read_text().replace("</html>", DRIVER.replace("EVENTS", str(events)) + "</html>"))
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}/browser", "--enable-logging=stderr",
               "--disable-ipc-flooding-protection",  # it would leave out addresses, since no reader presses keys as fast
               "--virtual-time-budget=10000", "--dump-dom", f"file://{page}#{event}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    wrong.extend(line for line in ended.stderr.split("\n") if "CONSOLE" in line)
    report = re.search(r'<pre id="report">(.*?)</pre>', ended.stdout, re.S)
    if not report:
        wrong.append("the browser did not run the page: " + ended.stderr[-500:])
        return []
    report = json.loads(html.unescape(report[1]))
    wrong.extend(report["faults"])
    expect("the event in the address", report["first"].split(" of ")[0], str(event))
    expect("images", report["images"], 0)
    if len(report["seen"]) < events:
        expect("the last event", report["seen"][-1]["count"], "{0} of {0}".format(len(report["seen"])))
    for number, shown in enumerate(report["seen"], 1):
        expect("the number of the event", shown["count"].split(" of ")[0], str(number))
        if not shown["sources"]:
            wrong.append(f"event {number} ({shown['now']}) has no source line")
    return report["seen"]


def check_any(seen):
    """What holds for a step of ResNet-20 in five buckets, whatever its times are of its 59 gradients."""
    at = lambda text: next((i for i, s in enumerate(seen) if s["now"].startswith(text)), None)
    bucket = "all_reduce of bucket 1 of 5 (fc.bias … layer3.2.bn2.weight) is "
    steps = {text: at(text) for text in ("module model", "cross_entropy", "backward begins", "the gradient of fc.weight",
                                         "the gradient of layer3.2.bn2.bias", bucket + "launched", "wait for gradients", "SGD step")}
    expect("the order of the events", list(steps.values()), sorted(steps.values(), key=lambda i: -1 if i is None else i))
    if None in steps.values():
        return
    counts = lambda text: seen[at(text)]["tape_count"].split(". ")[0]
    own = lambda text: seen[at(text)]["buckets"].split("fc")[0]
    expect("the tape at first", counts("module model"), "0 nodes wait on the tape, 0 have run")
    expect("the tape after forward", counts("backward begins"), "107 nodes wait on the tape, 0 have run")
    expect("the tape in backward", counts("the gradient of fc.weight"), "104 nodes wait on the tape, 3 have run")
    expect("the tape at last", counts("SGD step"), "0 nodes wait on the tape, 107 have run")
    expect("the buckets at first", re.findall(r"bucket (\d): 0 of (\d+?)(?=fc|layer)", seen[0]["buckets"]),
           [("1", "4"), ("2", "6"), ("3", "6"), ("4", "12"), ("5", "31")])
    expect("a bucket of one gradient", own("the gradient of fc.weight"), "bucket 1: 1 of 4")
    expect("a full bucket", own("the gradient of layer3.2.bn2.bias"), "bucket 1: full")
    launched = seen[at(bucket + "launched")]
    if not re.search("rank 0: bucket 1 (queued|in flight)", launched["flight"]):
        wrong.append(f"a launched bucket is not in flight: {launched['flight']}")
    expect("a bucket that is done", own(bucket + "done"), "bucket 1: averaged")
    expect("the buckets at last", re.findall(r"bucket (\d): averaged", seen[-1]["buckets"]), ["1", "2", "3", "4", "5"])
    expect("the flights at last", re.findall(r"rank 0", seen[-1]["flight"]), [])
    if not re.fullmatch(r"[\d.]+ [MK]iB", seen[-1]["memory"]):
        wrong.append(f"the memory at last is {seen[-1]['memory']}")


def browser(scratch, command):
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        print("chromium is not installed (scripts/setup.sh extra): the page was not opened")
        sys.exit(77)
    if command:
        traces = [str(scratch / "profile.json"), str(scratch / "trace.json")]
        subprocess.run([*command, "--profile", traces[0], "--trace", traces[1]], check=True, stdout=subprocess.DEVNULL)
        return check_any(in_browser(scratch, chromium, traces, 1))
    seen = in_browser(scratch, chromium, committed, 17)
    check_any(seen)
    if len(seen) == 245:
        expect("the tape at event 3", seen[2]["tape"].split(", node:")[0], "node live this: conv2d of conv1, node leaf live this: conv1.weight")
        expect("the memory before the first op", seen[0]["memory"], "not recorded")
        expect("the memory after the first op", seen[2]["memory"], "8.17 MiB")
        expect("the memory at last", seen[-1]["memory"], "4.18 MiB")
    else:
        wrong.append(f"the committed trace has {len(seen)} events")

    for path in committed:  # names in a trace are text, not HTML
        text = pathlib.Path(path).read_text().replace("layer1.0.conv1", "</script><!--<script><img src=x>")
        (scratch / pathlib.Path(path).name).write_text(text)
    hostile = in_browser(scratch, chromium, [str(scratch / "11_profile.json"), str(scratch / "11_overlap.json")], 3, events=10)
    expect("a name with HTML", hostile[8]["now"].split("The forward")[0] if hostile else "", "module </script><!--<script><img src=x>")


with tempfile.TemporaryDirectory() as folder:
    errors(pathlib.Path(folder)) if sys.argv[2] == "errors" else browser(pathlib.Path(folder), sys.argv[3:])
print("\n".join(wrong))
sys.exit(bool(wrong))
