//! The colours of lines and areas, after Okabe and Ito: blue, vermillion, green, orange, purple,
//! sky. Their lightness differs from the original, so that each stands out from its background, and
//! so that people with two kinds of cones tell any two of them apart. The tests compute that.
//!
//! Lines have a pattern as well, so that print without colours shows which is which.

use std::fmt::Write as _;

/// How a line or an area is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tone {
    /// The CSS classes of what has it. No chart has two of them.
    pub classes: &'static [&'static str],
    /// On a light background, and on a dark one.
    pub light: &'static str,
    pub dark: &'static str,
    /// Dashes and gaps of a line, in units of the drawing; `None` for a solid one.
    pub dashes: Option<&'static str>,
}

const fn line(classes: &'static [&'static str], colours: [&'static str; 2], dashes: Option<&'static str>) -> Tone {
    Tone { classes, light: colours[0], dark: colours[1], dashes }
}

const fn layer(classes: &'static [&'static str], colours: [&'static str; 2]) -> Tone {
    line(classes, colours, None)
}

/// Of the lines of a chart, in their order.
pub(super) const LINES: [Tone; 8] = [
    line(&["holdfast"], ["#1257c4", "#0090fc"], None),
    line(&["midpoint-0"], ["#b3341a", "#df3d08"], Some("9 5")),
    line(&["holdfast-plain"], ["#007a4d", "#30895f"], Some("0.1 4.5")),
    line(&["midpoint"], ["#be7808", "#e1a100"], Some("12 5 0.1 5")),
    line(&["midpoint-5", "myrocks"], ["#5c2468", "#b16799"], Some("4 5")),
    line(&["holdfast-alone"], ["#478ec2", "#56c8f5"], Some("15 5 4 5")),
    line(&["midpoint-late"], ["#701030", "#f4f060"], Some("12 5 0.1 5 0.1 5")),
    line(&["ceiling"], ["#60676e", "#bcbcbe"], Some("20 6")),
];

/// Of the layers of a stack, which lie on each other.
pub(super) const LAYERS: [Tone; 4] = [
    layer(&["hot"], ["#1257c4", "#0090fc"]),
    layer(&["hot-index"], ["#8fbdf2", "#2c5a92"]),
    layer(&["big"], ["#be7808", "#e1a100"]),
    layer(&["big-index"], ["#f0d9a8", "#6a5224"]),
];

/// The tone of the line with this number.
pub(super) fn of_line(n: usize) -> &'static Tone {
    &LINES[n % LINES.len()]
}

/// True if a class is that of a layer, which has no line.
pub(super) fn is_layer(class: &str) -> bool {
    LAYERS.iter().any(|tone| tone.classes.contains(&class))
}

/// The rules of the page for all tones.
pub(super) fn rules() -> String {
    let (mut light, mut dark) = (String::new(), String::new());
    for tone in LINES.iter().chain(&LAYERS) {
        let selector = tone.classes.iter().map(|class| format!(".{class}")).collect::<Vec<_>>().join(", ");
        // Writing to a String cannot fail.
        let _ = writeln!(light, "{selector} {{ --c: {}; --dashes: {}; }}", tone.light, tone.dashes.unwrap_or("none"));
        let _ = writeln!(dark, "  {selector} {{ --c: {}; }}", tone.dark);
    }
    format!("{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::STYLE;

    /// Of CIE Lab; 2.3 is what is just noticed of two areas side by side.
    const LEAST_DISTANCE: f64 = 15.0;
    /// What WCAG asks of graphics.
    const LEAST_CONTRAST: f64 = 3.0;

    type Matrix = [[f64; 3]; 3];

    /// How linear red, green and blue are seen with all three kinds of cones, and without those for
    /// long, middle or short waves: Machado, Oliveira and Fernandes, 2009, severity 1.
    const SIGHTS: [(&str, Matrix); 4] = [
        ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ("protan", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
        ("deutan", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
        ("tritan", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
    ];

    fn times(matrix: &Matrix, v: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|row| (0..3).map(|n| matrix[row][n] * v[n]).sum())
    }

    /// Linear red, green and blue of `#rrggbb`.
    fn linear(colour: &str) -> [f64; 3] {
        std::array::from_fn(|n| {
            let v = f64::from(u8::from_str_radix(&colour[1 + 2 * n..3 + 2 * n], 16).unwrap()) / 255.0;
            if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn luminance(colour: &str) -> f64 {
        let [r, g, b] = linear(colour);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// CIE Lab under daylight (D65).
    fn lab(rgb: [f64; 3]) -> [f64; 3] {
        let xyz =
            [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]];
        let [x, y, z] = times(&xyz, rgb);
        let [x, y, z] = [x / 0.95047, y, z / 1.08883]
            .map(|t: f64| if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// Delta E of 1976 between two colours, as this sight has them.
    fn distance(sight: &Matrix, a: &str, b: &str) -> f64 {
        let seen = |colour: &str| lab(times(sight, linear(colour)).map(|v| v.clamp(0.0, 1.0)));
        let (a, b) = (seen(a), seen(b));
        (0..3).map(|n| (a[n] - b[n]).powi(2)).sum::<f64>().sqrt()
    }

    /// The value of a variable of the style sheet: light, dark.
    fn backgrounds(name: &str) -> [&'static str; 2] {
        let variable = format!("--{name}: ");
        let mut found = STYLE.split(variable.as_str()).skip(1).map(|rest| &rest[..7]);
        std::array::from_fn(|_| found.next().unwrap())
    }

    #[test]
    fn a_distance_and_a_contrast_are_those_of_the_definitions() {
        let normal = &SIGHTS[0].1;
        assert!((distance(normal, "#000000", "#ffffff") - 100.0).abs() < 0.01);
        // Red and green, Lab (53.2, 80.1, 67.2) and (87.7, -86.2, 83.2).
        assert!((distance(normal, "#ff0000", "#00ff00") - 170.6).abs() < 0.1);
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        // The colours that lines had once: one and the same without cones for long waves.
        assert!(distance(&SIGHTS[1].1, "#1f6fd1", "#8a63d2") < 1.0);
    }

    #[test]
    fn colour_blind_people_tell_the_colours_of_a_chart_apart() {
        for (theme, of) in [("light", (|t| t.light) as fn(&Tone) -> &str), ("dark", |t| t.dark)] {
            for tones in [&LINES[..], &LAYERS[..]] {
                let pairs = tones.iter().enumerate().flat_map(|(n, a)| tones[..n].iter().map(move |b| (a, b)));
                for ((a, b), (sight, matrix)) in pairs.flat_map(|pair| SIGHTS.iter().map(move |sight| (pair, sight))) {
                    let apart = distance(matrix, of(a), of(b));
                    let pair = format!("{:?} and {:?}, {theme}, {sight}: {apart:.1}", a.classes, b.classes);
                    assert!(apart >= LEAST_DISTANCE, "{pair}");
                }
            }
        }
    }

    #[test]
    fn lines_stand_out_from_what_is_behind_them() {
        for name in ["card", "band", "band-alt"] {
            let [light, dark] = backgrounds(name);
            for tone in &LINES {
                let least = contrast(tone.light, light).min(contrast(tone.dark, dark));
                assert!(least >= LEAST_CONTRAST, "{:?} on {name}: {least:.2}", tone.classes);
            }
        }
    }

    #[test]
    fn lines_differ_without_colours_too() {
        for (n, tone) in LINES.iter().enumerate() {
            assert!(LINES[..n].iter().all(|other| other.dashes != tone.dashes), "{:?}", tone.classes);
        }
        let rules = rules();
        assert!(rules.contains(".midpoint-5, .myrocks { --c: #5c2468; --dashes: 4 5; }"), "{rules}");
        assert!(is_layer("hot") && !is_layer("holdfast"));
    }
}
