# --report: the page of a real run, as a browser renders it.
use_few_images
succeeds "${mpirun[@]}" -np 2 "$bin/fashion_mlp" --limit 640 --batch 64 --epochs 2 --threads 1 --report "$work/<b>report.html"
grep -qF "report $work/<b>report.html" "$log" || fail "the report is not named"
cp '<b>report.html' report.html
! grep -qE '<script|https?://|<link rel="stylesheet' report.html || fail "the page is not alone"
grep -q 'Means over 20 steps of rank 0, of 2 ranks' report.html || fail "the ranks' communication is not told"
grep -qF '&lt;b&gt;report.html' report.html || fail "the file's name is not escaped"
[ "$(grep -o 'data:image/png;base64,iVBORw0KGgo' report.html | wc -l)" = 24 ] || fail "not 24 pictures"
# A complete run has no new steps to report, but it has its epochs.
succeeds "$bin/fashion_mlp" --limit 640 --batch 64 --epochs 2 --threads 1 --resume --report again.html
[ "$(grep -c 'test accuracy: ' again.html)" = 2 ] || fail "a resumed run's curve does not have its two epochs"
grep -q 'No step was profiled' again.html || fail "a run without steps has a profile"
fails_saying "no/such/report.html" "$bin/fashion_mlp" --limit 640 --report no/such/report.html --checkpoint-dir never
[ ! -e never ] || fail "the run began though its report cannot be written"
command -v chromium >/dev/null || {
  echo "chromium is not installed (scripts/setup.sh extra): the page was not opened"
  exit 77
}
timeout 120 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/browser" --enable-logging=stderr \
  --dump-dom "file://$work/report.html" >dom.html 2>"$log" || fail "chromium"
for id in results curves confusion worst time overlap run; do
  grep -q "id=\"$id\"" dom.html || fail "the page as the browser sees it has no $id"
done
[ "$(grep -o '<svg' dom.html | wc -l)" = 6 ] || fail "not five curves and a step"
[ "$(grep -o '</svg>' dom.html | wc -l)" = 6 ] || fail "a chart is not closed"
grep -q 'Sneaker\|sneaker' dom.html || fail "the classes have no names"
! grep -q CONSOLE "$log" || fail "the browser complains"
# With a strict Content-Security-Policy nothing is missing either.
sed 's|<meta charset="utf-8">|&<meta http-equiv="Content-Security-Policy" content="default-src '"'none'"'; img-src data:; style-src '"'unsafe-inline'"'">|' \
  report.html >strict.html
timeout 120 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/browser" --enable-logging=stderr \
  --dump-dom "file://$work/strict.html" >dom.html 2>"$log" || fail "chromium"
! grep -q CONSOLE "$log" || fail "the page asks for something that is not in it"
