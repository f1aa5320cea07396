//! Shows a report in a real browser, with everything unfolded: its script runs without an error,
//! also under the pointer, no chart is empty, and nothing is wider than the page.
//!
//! Needs Chromium; the suites that show reports install it by its package's name.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Before everything else: collects the errors.
const KEEP_ERRORS: &str = "<script>window.failures = [];
addEventListener('error', (event) => failures.push(event.message));</script>";

/// After everything else: moves the pointer over every chart, then collects what the page shows.
const LOOK: &str = "<script>
document.querySelectorAll('details').forEach((part) => part.open = true);
const charts = [...document.querySelectorAll('figure.chart svg')].map((svg) => {
  const box = svg.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
  svg.dispatchEvent(new PointerEvent('pointermove', at));
  const drawn = [...svg.querySelectorAll('path')].filter((path) => path.getTotalLength() > 0).length
    + svg.querySelectorAll('rect.bar').length;
  const tip = document.getElementById('tip').textContent;
  svg.dispatchEvent(new PointerEvent('pointerleave', at));
  const hovers = svg.dataset.series !== undefined;
  return { hovers, title: svg.getAttribute('aria-label'), width: box.width, height: box.height, drawn, tip };
});
const found = document.createElement('script');
found.type = 'application/json';
found.id = 'found';
const wide = [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth);
found.textContent = JSON.stringify({
  failures, charts, overflow: document.body.scrollWidth > innerWidth, wide: wide.map((box) => box.innerText),
});
document.body.append(found);</script>";

/// Opens `page`, called `name`, with files in `dir`. Returns the number of its charts.
pub fn look_at(page: &str, name: &str, dir: &Path) -> usize {
    let looked_at = page.replacen("<head>", &format!("<head>{KEEP_ERRORS}"), 1);
    let looked_at = looked_at.replacen("</body>", &format!("{LOOK}</body>"), 1);
    assert_eq!(looked_at.len(), page.len() + KEEP_ERRORS.len() + LOOK.len(), "{name}: the page has a head and a body");
    let path = dir.join(format!("{name}.html"));
    std::fs::write(&path, looked_at).unwrap();

    let found = found(&dumped(&path, dir));
    assert_eq!(found["failures"], Value::Array(Vec::new()), "{name}: errors of the script");
    assert_eq!(found["overflow"], false, "{name}: the page is wider than the window");
    assert_eq!(found["wide"], Value::Array(Vec::new()), "{name}: tables that are wider than the page");
    let charts = found["charts"].as_array().unwrap();
    for chart in charts {
        assert!(chart["drawn"].as_u64().unwrap() > 0, "{name}: an empty chart: {chart}");
        assert!(
            chart["width"].as_f64().unwrap() > 100.0 && chart["height"].as_f64().unwrap() > 50.0,
            "{name}: {chart}"
        );
        assert!(chart["hovers"] == false || chart["tip"] != "", "{name}: nothing under the pointer: {chart}");
    }
    charts.len()
}

/// The page after its scripts ran.
fn dumped(page: &Path, dir: &Path) -> String {
    let chromium = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let output = Command::new(&chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap_or_else(|e| panic!("start {chromium}: {e}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn found(dom: &str) -> Value {
    let (_, rest) = dom.split_once("id=\"found\">").expect("the script came to its end");
    let (json, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}
