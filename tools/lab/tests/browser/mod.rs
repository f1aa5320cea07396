//! Shows a report in a real browser, light and dark, with everything unfolded: its script runs
//! without an error, also under the pointer, no chart is empty, each names its command, nothing is
//! wider than the page, and all text stands out from what is behind it.
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
const LEAST_CONTRAST = 3;
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
  const command = getComputedStyle(svg.closest('figure'), '::after').content;
  return { hovers, title: svg.getAttribute('aria-label'), width: box.width, height: box.height, drawn, tip, command };
});
const luminance = (colour) => {
  const linear = colour.match(/[0-9.]+/g).slice(0, 3).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const behind = (element) => {
  const colour = getComputedStyle(element).backgroundColor;
  const clear = colour === 'transparent' || colour.endsWith(', 0)');
  return clear && element.parentElement ? behind(element.parentElement) : colour;
};
const faint = new Set();
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
  const style = getComputedStyle(element);
  const colour = element instanceof SVGElement ? style.fill : style.color;
  const [less, more] = [luminance(colour), luminance(behind(element))].sort((a, b) => a - b);
  if ((more + 0.05) / (less + 0.05) < LEAST_CONTRAST) faint.add(`${colour} on ${behind(element)}: ${texts.currentNode.data.trim()}`);
}
const found = document.createElement('script');
found.type = 'application/json';
found.id = 'found';
const wide = [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth);
found.textContent = JSON.stringify({
  failures, charts, overflow: document.body.scrollWidth > innerWidth, wide: wide.map((box) => box.innerText),
  dark: matchMedia('(prefers-color-scheme: dark)').matches, faint: [...faint],
});
document.body.append(found);</script>";

/// The schemes of colours, as Blink numbers them.
const DARK: u8 = 0;
const LIGHT: u8 = 1;

/// Opens `page`, called `name`, with files in `dir`, in both schemes. Returns the number of its
/// charts.
pub fn look_at(page: &str, name: &str, dir: &Path) -> usize {
    let looked_at = page.replacen("<head>", &format!("<head>{KEEP_ERRORS}"), 1);
    let looked_at = looked_at.replacen("</body>", &format!("{LOOK}</body>"), 1);
    assert_eq!(looked_at.len(), page.len() + KEEP_ERRORS.len() + LOOK.len(), "{name}: the page has a head and a body");
    let path = dir.join(format!("{name}.html"));
    std::fs::write(&path, looked_at).unwrap();
    let has_command = page.contains("style=\"--command: ");
    let [charts, in_the_dark] = [LIGHT, DARK].map(|scheme| {
        let found = found(&dumped(&path, dir, scheme));
        assert_eq!(found["dark"], scheme == DARK, "{name}: the scheme that was asked for");
        check(&found, name, has_command)
    });
    assert_eq!(charts, in_the_dark, "{name}: the same charts");
    charts
}

/// Checks what the page shows. Returns the number of its charts.
fn check(found: &Value, name: &str, has_command: bool) -> usize {
    assert_eq!(found["failures"], Value::Array(Vec::new()), "{name}: errors of the script");
    assert_eq!(found["overflow"], false, "{name}: the page is wider than the window");
    assert_eq!(found["wide"], Value::Array(Vec::new()), "{name}: tables that are wider than the page");
    assert_eq!(found["faint"], Value::Array(Vec::new()), "{name}: text like what is behind it");
    let charts = found["charts"].as_array().unwrap();
    for chart in charts {
        assert!(chart["drawn"].as_u64().unwrap() > 0, "{name}: an empty chart: {chart}");
        assert!(
            chart["width"].as_f64().unwrap() > 100.0 && chart["height"].as_f64().unwrap() > 50.0,
            "{name}: {chart}"
        );
        assert!(chart["hovers"] == false || chart["tip"] != "", "{name}: nothing under the pointer: {chart}");
        let names_it = chart["command"].as_str().unwrap().contains("holdfast lab ");
        assert_eq!(names_it, has_command, "{name}: the command of {chart}");
    }
    charts.len()
}

/// The page after its scripts ran.
fn dumped(page: &Path, dir: &Path, scheme: u8) -> String {
    let chromium = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let output = Command::new(&chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
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
