//! Cleaning, measuring, clipping, wrapping and masking.

use crosstalk::text::mask::Masker;
use crosstalk::text::{
    Clean, Untrusted, clean, clean_block, clean_str, clip, clip_middle, escape_json, graphemes,
    width, wrap,
};
use proptest::prelude::*;

fn line(text: &str) -> String {
    clean(&Untrusted::new(text)).into_string()
}

fn block(text: &str) -> String {
    clean_block(&Untrusted::new(text)).into_string()
}

#[track_caller]
fn check(input: &str, expect: &str) {
    assert_eq!(line(input), expect, "{input:?} on one line");
    assert_eq!(line(expect), expect, "{input:?} cleaned again");
}

#[track_caller]
fn check_block(input: &str, expect: &str) {
    assert_eq!(block(input), expect, "{input:?} as a block");
    assert_eq!(block(expect), expect, "{input:?} cleaned again");
}

/// Characters that must not be drawn anywhere, whatever stands beside them.
fn is_trick(c: char) -> bool {
    matches!(c, '\0'..='\u{9}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{e0100}'..='\u{e01ef}' | '\u{f0000}'..)
        || u32::from(c) & 0xfffe == 0xfffe
        || (0xfdd0..=0xfdef).contains(&u32::from(c))
}

/// What [`Clean`] promises.
fn assert_drawable(text: &str, breaks: bool) {
    for c in text.chars() {
        assert!(!is_trick(c), "U+{:04X} in {text:?}", u32::from(c));
        assert!(breaks || c != '\n', "a line break in {text:?}");
    }
    for (piece, columns) in graphemes(text) {
        let expect = if piece == "\n" { 0..=0 } else { 1..=2 };
        assert!(
            expect.contains(&columns),
            "{piece:?} takes {columns} columns"
        );
        assert!(piece.chars().count() <= 64, "{piece:?} is too tall");
    }
}

mod cleaning {
    use super::*;

    #[test]
    fn plain_text_stays() {
        for text in [
            "",
            " ",
            "plain ASCII, ~ and all",
            "naïve café",
            "Größe 5 µm ± 2 %",
            "日本語のテキスト。",
            "한국어",
            "Русский Ελληνικά",
            "שלום עולם",
            "مرحبا بالعالم",
            "हिन्दी स्त्री",
            "ภาษาไทยกำลัง",
            "မြွှောင်း",
            "Tiếng Việt",
            "e\u{301} n\u{303}",
            "├─ ⠹ ✓ ◐ → ⟦x⟧ ␛",
            "a\u{a0}b\u{2009}c\u{3000}d",
        ] {
            check(text, text);
            check_block(text, text);
        }
    }

    #[test]
    fn emoji_stay() {
        for text in [
            "😀 👍🏽 🇩🇪 🇺🇳",
            "❤\u{fe0f} ⌚\u{fe0e} 1\u{fe0f}\u{20e3} ©\u{fe0f}",
            "👩\u{200d}💻 👩🏻\u{200d}❤\u{fe0f}\u{200d}💋\u{200d}👨🏼 🏳\u{fe0f}\u{200d}🌈 🏴\u{200d}☠\u{fe0f}",
            "👨\u{200d}👩\u{200d}👧\u{200d}👦 🧑🏿\u{200d}⚕\u{fe0f} 🐻\u{200d}❄\u{fe0f}",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} England",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn control_characters_become_pictures() {
        check("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m");
        check("\u{1b}]0;title\u{7}", "␛]0;title␇");
        check("a\0b\u{7f}c", "a␀b␡c");
        check("a\u{8}b\u{b}c\u{c}d", "a␈b␋c␌d");
        check("a\u{9b}31mb\u{85}c\u{80}", "a⟦9B⟧31mb⟦85⟧c⟦80⟧");
    }

    #[test]
    fn line_breaks_and_tabs_on_one_line() {
        check("a\nb", "a␊b");
        check("a\r\nb", "a␊b");
        check("10 %\r20 %", "10 %␍20 %");
        check("a\tb", "a b");
        check("a\u{2028}b\u{2029}c", "a␊b␊c");
    }

    #[test]
    fn line_breaks_and_tabs_in_a_block() {
        check_block("a\nb\n\n", "a\nb\n\n");
        check_block("a\r\nb\r\n", "a\nb\n");
        check_block("a\rb\r\r\nc", "a␍b␍\nc");
        check_block("a\u{2028}b\u{2029}c", "a\nb\nc");
        check_block("\tx", "    x");
        check_block("a\tb", "a   b");
        check_block("abc\td", "abc d");
        check_block("abcd\te", "abcd    e");
        check_block("日\tx\n\ty", "日  x\n    y");
        check_block("a\tb\tc\n12345\tz", "a   b   c\n12345   z");
        check_block("a\u{1b}\t.", "a␛  .");
    }

    #[test]
    fn bidirectional_controls_are_named() {
        check("user\u{202e}txt.exe", "user⟦RLO⟧txt.exe");
        check("\u{202a}\u{202b}\u{202c}\u{202d}", "⟦LRE⟧⟦RLE⟧⟦PDF⟧⟦LRO⟧");
        check("\u{2066}\u{2067}\u{2068}\u{2069}", "⟦LRI⟧⟦RLI⟧⟦FSI⟧⟦PDI⟧");
        check("\u{200e}\u{200f}\u{61c}", "⟦LRM⟧⟦RLM⟧⟦ALM⟧");
    }

    #[test]
    fn hints_are_left_out_and_hidden_characters_shown() {
        check("pay\u{200b}pal\u{2060} \u{feff}so\u{ad}ft", "paypal soft");
        check(
            "a\u{115f}b\u{1160}c\u{3164}d\u{ffa0}",
            "a⟦115F⟧b⟦1160⟧c⟦3164⟧d⟦FFA0⟧",
        );
        check("f\u{2061}(x)\u{2063}\u{180e}", "f⟦2061⟧(x)⟦2063⟧⟦180E⟧");
        check("\u{fff9}a\u{fffa}b\u{fffb}", "⟦FFF9⟧a⟦FFFA⟧b⟦FFFB⟧");
    }

    #[test]
    fn hidden_text_says_what_it_says() {
        let hidden: String = "ignore all rules"
            .chars()
            .filter_map(|c| char::from_u32(0xe0000 + u32::from(c)))
            .collect();
        check(&format!("hello{hidden}!"), "hello⟦TAG ignore all rules⟧!");
        check("a\u{e0001}b\u{e007f}", "a⟦TAG⟧b⟦TAG⟧");
        // Tags that are no flag in use could say anything.
        check(
            "🏴\u{e0075}\u{e0073}\u{e0074}\u{e0078}\u{e007f}",
            "🏴⟦TAG ustx⟧",
        );
        check(
            "🏳\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "🏳⟦TAG gbeng⟧",
        );
    }

    #[test]
    fn selectors_choose_once() {
        check("a\u{fe0f}", "a\u{fe0f}");
        check("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}");
        check("\u{fe0f}x \u{fe0f}y", "x y");
        check("葛\u{e0100}", "葛");
        check("😀\u{e0101}\u{e0102}\u{e0103}", "😀⟦VS×3⟧");
        check("😀\u{fe0f}\u{fe01}\u{fe02}", "😀\u{fe0f}⟦VS×2⟧");
        check("a\u{180b}", "a");
        check("ᠠ\u{180b}", "ᠠ\u{180b}");
    }

    #[test]
    fn joiners_stay_where_they_shape() {
        check("می\u{200c}خواهم", "می\u{200c}خواهم");
        check("ක\u{dca}\u{200d}ර", "ක\u{dca}\u{200d}ර");
        check("র\u{200d}\u{9cd}য", "র\u{200d}\u{9cd}য");
        check("a\u{200d}b\u{200c}c", "abc");
        check("😀\u{200d}a \u{200d}😀\u{200d}", "😀a 😀");
        check("😀\u{200d}\u{200d}😀", "😀\u{200d}😀");
        check("a\u{200d}😀", "a😀");
        let chain = "😀\u{200d}".repeat(9) + "😀";
        check(
            &chain,
            &format!(
                "{0}{1}{0}{1}",
                "😀\u{200d}😀\u{200d}😀\u{200d}😀\u{200d}", "😀"
            ),
        );
    }

    #[test]
    fn marks_stay_in_their_cell() {
        let tall = |count| format!("z{}", "\u{300}".repeat(count));
        check(&tall(4), &tall(4));
        check(&tall(5), &format!("{}\u{fffd}", tall(4)));
        check(
            &format!("{}y", tall(1000)),
            &format!("{}\u{fffd}y", tall(4)),
        );
        // At the start of a line there is nothing to carry a mark but what the screen has there.
        check("\u{301}a", "◌\u{301}a");
        check_block("a\n\u{301}b", "a\n◌\u{301}b");
        check("ा", "◌ा");
    }

    #[test]
    fn what_has_no_glyph_is_replaced() {
        check("\u{e000}\u{f8ff}\u{f0000}\u{10fffd}", "����");
        check("\u{378}\u{ffff}\u{fdd0}\u{1fffe}", "����");
        check("\u{fffd}\u{fffc}", "\u{fffd}\u{fffc}");
    }

    #[test]
    fn korean_in_parts_stays_and_lone_parts_are_replaced() {
        check("\u{1112}\u{1161}\u{11ab}", "\u{1112}\u{1161}\u{11ab}");
        check("\u{ac00}\u{11a8}", "\u{ac00}\u{11a8}");
        check("\u{1161}a\u{11a8}", "�a�");
    }

    #[test]
    fn every_character_alone_and_behind_a_letter() {
        for c in '\0'..='\u{e0fff}' {
            // These planes are one range each to the cleaning.
            if matches!(c, '\u{e100}'..='\u{f700}' | '\u{20100}'..='\u{2a600}' | '\u{32000}'..='\u{dffff}')
            {
                continue;
            }
            let both: String = [c, 'a', c].into_iter().collect();
            let once = line(&both);
            assert_drawable(&once, false);
            assert_eq!(line(&once), once, "U+{:04X} cleaned again", u32::from(c));
        }
    }

    #[test]
    fn what_does_not_exist_is_known_without_a_table() {
        // The engine's tables may be older than the library's: what it knows must exist here.
        let exists = regex::Regex::new(r"^[\p{L}\p{N}\p{P}\p{S}\p{Zs}]$").unwrap();
        for c in ('\u{a0}'..='\u{1ffff}').chain(['\u{20000}', '\u{30000}']) {
            let alone = c.to_string();
            let filler = matches!(c, '\u{115f}'..='\u{11ff}' | '\u{3164}' | '\u{d7b0}'..='\u{d7fb}' | '\u{ffa0}');
            if exists.is_match(&alone) && !filler && line(&alone) != alone {
                // Letters that are written above or around the next one and have no column of their own; a sign that
                // takes three; and what belongs to a letter before it.
                let odd = matches!(
                    c,
                    '\u{d4e}' | '\u{17d8}' | '\u{a8fa}' | '\u{10ecb}'..='\u{1e6ff}'
                );
                let carried = line(&alone) == format!("◌{c}");
                assert!(
                    odd || carried,
                    "U+{:04X} became {:?}",
                    u32::from(c),
                    line(&alone)
                );
            }
        }
    }

    #[test]
    fn debug_of_untrusted_text_is_drawable() {
        assert_eq!(
            format!("{:?}", Untrusted::new("\u{1b}\u{202e}\n")),
            "Untrusted(\"␛⟦RLO⟧␊\")"
        );
    }

    #[test]
    fn ac_50_hostile_text_grows_by_a_constant_at_most() {
        let hostile = [
            "\u{1b}",
            "\u{202e}",
            "\u{200b}",
            "\u{300}",
            "\u{200d}",
            "😀\u{200d}",
            "\u{e0041}",
            "\u{fe0f}",
            "\u{e0100}",
            "\u{e000}",
            "\u{1161}",
            "\u{1100}",
            "\u{94d}क",
            "\u{600}",
            "\t",
            "日\t",
            "\r",
            "\n\u{301}",
            "🇩",
            "👍🏻🏻",
        ];
        for seed in hostile {
            let text = seed.repeat(40_000 / seed.len());
            for cleaned in [line(&text), block(&text), escape_json(&text).into_string()] {
                assert!(
                    cleaned.len() <= text.len() * 7,
                    "{seed:?}: {} bytes",
                    cleaned.len()
                );
                width(&cleaned);
            }
            assert_drawable(&line(&text), false);
        }
    }

    proptest! {
        #[test]
        fn cleaning_is_idempotent_and_leaves_nothing_undrawable(text in hostile()) {
            let once = line(&text);
            assert_drawable(&once, false);
            prop_assert_eq!(line(&once), once.clone());
            prop_assert_eq!(clean_str(&text).into_string(), once);
            let once = block(&text);
            assert_drawable(&once, true);
            prop_assert_eq!(block(&once), once);
        }

        #[test]
        fn the_ascii_path_agrees_with_the_other(text in "[ -~\n]{0,60}") {
            // A hint is left out, but takes the text off the short path.
            prop_assert_eq!(block(&format!("{text}\u{200b}")), text.clone());
            prop_assert_eq!(block(&text), text);
        }

        #[test]
        fn ascii_is_never_lost(text in hostile()) {
            let ascii = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).count();
            prop_assert!(ascii(&block(&text)) >= ascii(&text));
        }
    }
}

/// Text in which tricks are as common as letters.
fn hostile() -> impl Strategy<Value = String> {
    let trick = prop::sample::select(
        "\0\u{7}\u{1b}\t\n\r\u{7f}\u{85}\u{9b}\u{ad}\u{200b}\u{200c}\u{200d}\u{200d}\u{200d}\u{200e}\u{2028}\u{202e}\
         \u{2060}\u{2066}\u{feff}\u{fe0e}\u{fe0f}\u{fe0f}\u{fe01}\u{e0100}\u{180b}\u{e0001}\u{e0067}\u{e0062}\u{e007f}\
         \u{300}\u{301}\u{301}\u{20e3}\u{94d}\u{93e}\u{903}\u{64b}\u{dca}\u{200d}\u{e000}\u{378}\u{ffff}\u{1100}\
         \u{1161}\u{11a8}\u{115f}\u{ac00}\u{600}\u{d4e}\u{110bd}\u{e33}\u{ff9e}\u{1f3fb}\u{1f1e9}\u{1f3f4}"
            .chars()
            .collect::<Vec<_>>(),
    );
    let letter = prop::sample::select(
        "aZ1 \"\\#é日本ａ😀❤👩💻कषرมی한ᠠ◌⟦�…-"
            .chars()
            .collect::<Vec<_>>(),
    );
    let flag = Just("🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}".to_owned());
    let part = prop_oneof![
        6 => trick.prop_map(String::from),
        6 => letter.prop_map(String::from),
        2 => any::<char>().prop_map(String::from),
        1 => flag,
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

mod json {
    use super::*;

    #[track_caller]
    fn check_json(input: &str, expect: &str) {
        assert_eq!(escape_json(input).as_str(), expect);
        assert_eq!(escape_json(expect).as_str(), expect, "escaped again");
    }

    #[test]
    fn what_is_not_drawable_is_escaped() {
        check_json(r#"{"a": "plain é 日"}"#, r#"{"a": "plain é 日"}"#);
        check_json(
            "[\"\u{7f}\u{9b}\u{202e}\u{200b}\u{feff}\"]",
            r#"["\u007f\u009b\u202e\u200b\ufeff"]"#,
        );
        check_json(
            "[\"\u{e0041}\u{f0000}\"]",
            r#"["\udb40\udc41\udb80\udc00"]"#,
        );
        check_json("[\"a\u{2028}b\"]", r#"["a\u2028b"]"#);
        check_json(r#"["\u001b\n"]"#, r#"["\u001b\n"]"#);
    }

    #[test]
    fn marks_stay_on_letters_and_leave_quotes_alone() {
        check_json(
            "[\"e\u{301}\", \"\u{301}e\"]",
            "[\"e\u{301}\", \"\\u0301e\"]",
        );
        check_json(
            "[\"❤\u{fe0f}\", \"\u{fe0f}\"]",
            "[\"❤\u{fe0f}\", \"\\ufe0f\"]",
        );
    }

    #[test]
    fn the_layout_stays() {
        check_json("{\n  \"a\": 1\n}\n", "{\n  \"a\": 1\n}\n");
        check_json("{\r\n\t\"a\":\t1\r}", "{\n    \"a\":    1\n}");
    }

    proptest! {
        #[test]
        fn escaped_json_is_drawable_and_parses_to_the_same(texts in prop::collection::vec(hostile(), 0..4), pretty: bool) {
            let json = if pretty { serde_json::to_string_pretty(&texts) } else { serde_json::to_string(&texts) }.unwrap();
            let escaped = escape_json(&json);
            assert_drawable(escaped.as_str(), true);
            prop_assert_eq!(escaped.as_str().lines().count(), json.lines().count());
            prop_assert_eq!(&serde_json::from_str::<Vec<String>>(escaped.as_str()).unwrap(), &texts);
            prop_assert_eq!(block(escaped.as_str()), escaped.as_str(), "cleaning has nothing left to do");
        }
    }
}

mod measuring {
    use super::*;

    #[track_caller]
    fn check_width(input: &str, expect: usize) {
        assert_eq!(width(input), expect, "{input:?}");
    }

    #[test]
    fn widths_are_those_of_terminals() {
        check_width("", 0);
        check_width("plain", 5);
        check_width("naïve", 5);
        check_width("日本", 4);
        check_width("e\u{301}", 1);
        check_width("😀", 2);
        check_width("❤", 1);
        check_width("❤\u{fe0f}", 2);
        check_width("1\u{fe0f}\u{20e3}", 2);
        check_width("👩🏻\u{200d}❤\u{fe0f}\u{200d}💋\u{200d}👨🏼", 2);
        check_width("🇩🇪🇺🇳", 4);
        check_width(
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            2,
        );
        check_width("\u{1112}\u{1161}\u{11ab}", 2);
        check_width("한글", 4);
        check_width("⟦RLO⟧␛…", 7);
        check_width("a\nb", 2);
    }

    #[test]
    fn a_wide_cluster_is_taken_apart_at_its_letters() {
        let pieces: Vec<_> = graphemes("स्त्री").collect();
        assert_eq!(pieces, [("स्", 1), ("त्", 1), ("री", 2)]);
        assert_eq!(graphemes("ᄀᄀᄀ").collect::<Vec<_>>(), [("ᄀ", 2); 3]);
    }

    proptest! {
        #[test]
        fn the_drawing_library_counts_the_same(text in hostile()) {
            // It counts the halfwidth voiced sound marks twice, making up for a zero that is none any more.
            let text = line(&text.replace(['\u{ff9e}', '\u{ff9f}'], ""));
            let mut buffer = ratatui::buffer::Buffer::empty(ratatui::layout::Rect::new(0, 0, 2_000, 1));
            let (column, _) = buffer.set_stringn(0, 0, &text, usize::MAX, ratatui::style::Style::new());
            prop_assert_eq!(usize::from(column), width(&text), "{:?}", text);
        }

        #[test]
        fn pieces_are_the_text_and_narrow(text in hostile()) {
            let text = line(&text);
            let pieces: Vec<_> = graphemes(&text).collect();
            prop_assert_eq!(pieces.iter().map(|(piece, _)| *piece).collect::<String>(), text.clone());
            prop_assert_eq!(pieces.iter().map(|(_, columns)| columns).sum::<usize>(), width(&text));
            prop_assert!(pieces.iter().all(|(_, columns)| (1..=2).contains(columns)));
        }
    }
}

mod clipping {
    use super::*;

    #[track_caller]
    fn check_clip(input: &str, columns: usize, end: &str, middle: &str) {
        let text = clean_block(&Untrusted::new(input));
        assert_eq!(clip(&text, columns).as_str(), end, "{input:?} at {columns}");
        assert_eq!(
            clip_middle(&text, columns).as_str(),
            middle,
            "the ends of {input:?} at {columns}"
        );
    }

    #[test]
    fn what_fits_stays_and_the_rest_is_marked() {
        check_clip("", 0, "", "");
        check_clip("abc", 0, "", "");
        check_clip("abc", 1, "…", "…");
        check_clip("abc", 2, "a…", "a…");
        check_clip("abc", 3, "abc", "abc");
        check_clip("abcdefgh", 5, "abcd…", "ab…gh");
        check_clip("abcdefgh", 6, "abcde…", "abc…gh");
        check_clip("abc", usize::MAX, "abc", "abc");
    }

    #[test]
    fn graphemes_stay_whole() {
        check_clip("日本語", 6, "日本語", "日本語");
        check_clip("日本語", 5, "日本…", "日…語");
        check_clip("日本語", 4, "日…", "日…");
        check_clip("日本語", 3, "日…", "…語");
        check_clip("日本語", 2, "…", "…");
        check_clip("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…", "e\u{301}…");
        check_clip(
            "👩\u{200d}💻👩\u{200d}💻",
            3,
            "👩\u{200d}💻…",
            "…👩\u{200d}💻",
        );
    }

    #[test]
    fn a_block_becomes_one_line() {
        check_clip("ab\ncd", 9, "ab…", "ab…cd");
        check_clip("ab\n", 9, "ab…", "ab…");
        check_clip("\nab", 3, "…", "…ab");
    }

    proptest! {
        #[test]
        fn clipping_is_never_wider_and_never_silent(text in hostile(), columns in 0_usize..30) {
            let text = clean(&Untrusted::new(text));
            let whole = width(text.as_str());
            for clipped in [clip(&text, columns), clip_middle(&text, columns)] {
                let clipped = clipped.as_str();
                prop_assert!(width(clipped) <= columns, "{:?} is {} wide", clipped, width(clipped));
                if whole <= columns {
                    prop_assert_eq!(clipped, text.as_str());
                } else if columns > 0 {
                    let (head, tail) = text.as_str().char_indices().map(|(at, _)| at).chain([text.as_str().len()])
                        .filter_map(|at| Some((&text.as_str()[..at], clipped.strip_prefix(&text.as_str()[..at])?.strip_prefix('…')?)))
                        .next_back().expect("a head and the mark");
                    prop_assert!(text.as_str()[head.len()..].ends_with(tail));
                    // At most a wide grapheme on each side did not fit.
                    prop_assert!(width(clipped) + 2 >= columns);
                }
            }
        }
    }
}

mod wrapping {
    use super::*;

    fn lines(text: &str, columns: usize) -> Vec<&str> {
        wrap(text, columns)
            .into_iter()
            .map(|line| &text[line])
            .collect()
    }

    #[track_caller]
    fn check_wrap(input: &str, columns: usize, expect: &[&str]) {
        assert_eq!(lines(input, columns), expect, "{input:?} at {columns}");
    }

    #[test]
    fn words_break_at_spaces() {
        check_wrap("", 5, &[""]);
        check_wrap("   ", 2, &[""]);
        check_wrap("one two three", 20, &["one two three"]);
        check_wrap("one two three", 7, &["one two", "three"]);
        check_wrap("one two three", 8, &["one two", "three"]);
        check_wrap("one two three", 5, &["one", "two", "three"]);
        check_wrap("one   two   ", 5, &["one", "two"]);
        check_wrap("one   two", 9, &["one   two"]);
        check_wrap("naïve café über", 7, &["naïve", "café", "über"]);
        check_wrap("naïve café über", 10, &["naïve café", "über"]);
    }

    #[test]
    fn indentation_stays_where_the_first_word_fits() {
        check_wrap("  ab cd", 4, &["  ab", "cd"]);
        check_wrap("  é cd", 4, &["  é", "cd"]);
        check_wrap("    abc", 5, &["abc"]);
        check_wrap("    äbc", 5, &["äbc"]);
    }

    #[test]
    fn long_words_break_at_graphemes() {
        check_wrap("abcdefgh", 3, &["abc", "def", "gh"]);
        check_wrap("ab cdefgh", 3, &["ab", "cde", "fgh"]);
        check_wrap(
            "e\u{301}e\u{301}e\u{301}",
            2,
            &["e\u{301}e\u{301}", "e\u{301}"],
        );
        check_wrap(
            "👩\u{200d}💻👩\u{200d}💻",
            3,
            &["👩\u{200d}💻", "👩\u{200d}💻"],
        );
        check_wrap("स्त्री", 2, &["स्त्", "री"]);
    }

    #[test]
    fn wide_graphemes_break_anywhere_but_at_their_punctuation() {
        check_wrap("日本語テキスト", 6, &["日本語", "テキス", "ト"]);
        check_wrap("see 日本語", 8, &["see 日本", "語"]);
        check_wrap("日本語。", 6, &["日本", "語。"]);
        check_wrap("日「本」", 4, &["日", "「本", "」"]);
        check_wrap("。。。。", 4, &["。。", "。。"]);
    }

    #[test]
    fn no_room_is_no_trap() {
        for columns in [0, 1] {
            check_wrap("ab c", columns, &["a", "b", "c"]);
            check_wrap("日 é", columns, &["日", "é"]);
            check_wrap("日本", columns, &["日", "本"]);
        }
        check_wrap("ab é", usize::MAX, &["ab é"]);
        check_wrap("ab e", usize::MAX, &["ab e"]);
    }

    #[test]
    fn ac_50_a_million_characters_make_as_many_lines_as_they_fill() {
        for (seed, columns, expect) in [("-", 80, 12_500), ("a ", 1, 1_000_000)] {
            assert_eq!(
                wrap(&seed.repeat(1_000_000), columns).len(),
                expect,
                "{seed:?}"
            );
        }
        assert_eq!(wrap(&" ".repeat(1_000_000), 80).len(), 1);
        for (seed, expect) in [
            ("é", 1_250),
            ("日", 2_500),
            ("é日 ", 5_000),
            ("\u{94d}क", 1_250),
        ] {
            assert_eq!(wrap(&seed.repeat(100_000), 80).len(), expect, "{seed:?}");
        }
        assert_eq!(wrap(&format!("é{}é", " ".repeat(100_000)), 80).len(), 2);
    }

    proptest! {
        #[test]
        fn wrapping_loses_nothing_but_spaces(text in hostile(), columns in 0_usize..12) {
            let text = line(&text);
            let ranges = wrap(&text, columns);
            prop_assert!(!ranges.is_empty());
            let mut end = 0;
            for range in &ranges {
                prop_assert!(text[end..range.start].chars().all(|c| c == ' '), "only spaces between lines");
                let shown = &text[range.clone()];
                prop_assert!(graphemes(shown).last().is_none_or(|(piece, _)| piece != " "));
                prop_assert!(!shown.is_empty() || ranges.len() == 1);
                let narrow = width(shown) <= columns.max(1) || graphemes(shown).nth(1).is_none();
                prop_assert!(narrow, "{:?} is {} wide", shown, width(shown));
                end = range.end;
            }
            prop_assert!(text[end..].chars().all(|c| c == ' '));
        }

        #[test]
        fn the_ascii_path_agrees_with_the_other(text in "[a-c  ]{0,60}", columns in 0_usize..12) {
            let other = text.replace(['a', 'b', 'c'], "é");
            let characters = |text: &str, range: std::ops::Range<usize>| {
                text[..range.start].chars().count()..text[..range.end].chars().count()
            };
            let here: Vec<_> = wrap(&text, columns).into_iter().map(|range| characters(&text, range)).collect();
            let there: Vec<_> = wrap(&other, columns).into_iter().map(|range| characters(&other, range)).collect();
            prop_assert_eq!(here, there);
        }

        #[test]
        fn a_word_moves_down_only_when_it_does_not_fit(text in "[a-cé]{1,9}( [a-cé]{1,9}){0,9}", columns in 1_usize..12) {
            let lines = lines(&text, columns);
            for pair in lines.windows(2) {
                let word = pair[1].split(' ').next().unwrap_or_default();
                prop_assert!(width(pair[0]) + 1 + width(word) > columns, "{:?}", pair);
            }
        }
    }
}

mod masking {
    use super::*;

    /// 40 characters that no rule knows.
    const SECRET: &str = "Zq7w9xKc2vBn4mLp8sDf3gHj6kRt1yUe5iOa0QzX";

    fn mask(text: &str) -> String {
        Masker::builtin()
            .mask(text)
            .unwrap_or_else(|| text.to_owned())
    }

    #[track_caller]
    fn check_mask(input: &str, expect: &str) {
        let masked = Masker::builtin().mask(input);
        assert_eq!(masked.as_deref().unwrap_or(input), expect, "{input:?}");
        assert_eq!(
            masked.is_some(),
            input != expect,
            "`None` says that nothing changed"
        );
        assert_eq!(Masker::builtin().mask(expect), None, "{expect:?} is masked");
    }

    #[track_caller]
    fn check_custom(pattern: &str, input: &str, expect: &str) {
        let masker = Masker::custom(&[pattern.to_owned()]).unwrap();
        assert_eq!(
            masker.mask(input).unwrap_or_else(|| input.to_owned()),
            expect,
            "{pattern} on {input:?}"
        );
    }

    #[test]
    fn h_51_nothing_secret_stays() {
        for text in [
            "",
            "nothing to see",
            "the monkey sat on a keyboard, tokens: none of them",
            "let key = ",
            "SessionKey::parse",
            "sk-short",
            "task-12345678901234567890",
            "ghp_tooshort",
            "12345:abcdefghijklmnopqrstuvwxyz",
            "123456:short",
            "bearer of bad news",
            "Bearer short",
            "--tokens 5 --verbose",
            r#"{"sessionKey": "agent:main:main", "tokens": 5}"#,
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "TOKEN=\"\"",
        ] {
            check_mask(text, text);
        }
    }

    #[test]
    fn h_51_assignments() {
        check_mask("API_KEY=abc", "API_KEY=***");
        check_mask("export GH_TOKEN=abc def", "export GH_TOKEN=*** def");
        check_mask("client_secret: abc", "client_secret: ***");
        check_mask("DB_PASSWORD = 'abc'", "DB_PASSWORD = '***'");
        check_mask("passwd=\"a b c\"", "passwd=\"***\"");
        check_mask("password=\"unclosed rest", "password=\"*** rest");
        check_mask("Password:\n  hunter2", "Password:\n  ***");
        check_mask(
            "**Password:** hunter2, **`TOKEN`**: `abc`",
            "**Password:** *** **`TOKEN`**: `***`",
        );
        check_mask(
            "password == \"abc\", key => abc",
            "password == \"***\", key => ***",
        );
        check_mask("apiKey=abc&x=1", "apiKey=***");
        check_mask(
            r#"run \"API_KEY=\\\"abc\\\"\""#,
            r#"run \"API_KEY=\\\"***\\\"\""#,
        );
        check_mask("secret: key: abc", "secret: *** ***");
        check_mask("KEY=TOKEN=abc", "KEY=***");
    }

    #[test]
    fn h_51_json_members() {
        for name in [
            "apiKey",
            "token",
            "secret",
            "password",
            "passwd",
            "accessToken",
            "refreshToken",
            "APIKEY",
            "access_token",
        ] {
            check_mask(
                &format!("{{\"{name}\": \"abc\", \"x\": 1}}"),
                &format!("{{\"{name}\": \"***\", \"x\": 1}}"),
            );
        }
        check_mask(r#"{"token":"a\"b c\\"}"#, r#"{"token":"***"}"#);
        check_mask(r#"{"token":"not closed"#, r#"{"token":"***"#);
        check_mask(
            r#"{"a":"{\"token\":\"a\\\"b\",\"x\":1}"}"#,
            r#"{"a":"{\"token\":\"***\",\"x\":1}"}"#,
        );
        check_mask("{'password': 'abc'}", "{'password': '***'}");
        check_mask(r#"{"token": ""}"#, r#"{"token": ""}"#);
        check_mask(r#"{"token": 5}"#, r#"{"token": 5}"#);
    }

    #[test]
    fn h_51_flags() {
        check_mask("run --api-key abc --verbose", "run --api-key *** --verbose");
        check_mask("run --apikey \"a b\" x", "run --apikey \"***\" x");
        check_mask(
            "--token abc --secret abc --password abc --passwd abc",
            "--token *** --secret *** --password *** --passwd ***",
        );
        check_mask(
            "--access-token abc --refreshToken 'abc'",
            "--access-token *** --refreshToken '***'",
        );
        check_mask("--token=abc", "--token=***");
    }

    #[test]
    fn h_51_bearers() {
        check_mask("Authorization: Bearer abc", "Authorization: Bearer ***");
        check_mask("authorization=bearer abc", "authorization=bearer ***");
        check_mask(
            r#"{"Authorization": "Bearer abc"}"#,
            r#"{"Authorization": "Bearer ***"}"#,
        );
        check_mask("Bearer abcdefghijklmnop/r+s==", "Bearer abcdef…+s==");
        check_mask(
            "token: Bearer abcdefghijklmnopqrst",
            "token: *** abcdef…qrst",
        );
    }

    #[test]
    fn h_51_bare_tokens() {
        for (start, count) in [
            ("sk-", 8),
            ("ghp_", 20),
            ("github_pat_", 20),
            ("xoxa-", 10),
            ("xoxb-", 10),
            ("xoxp-", 10),
            ("xoxr-", 10),
            ("xoxs-", 10),
            ("xapp-", 10),
            ("gsk_", 10),
            ("AIza", 20),
            ("pplx-", 10),
            ("npm_", 10),
            ("123456:", 20),
        ] {
            for start in [start.to_owned(), start.to_uppercase()] {
                let token = format!("{start}{}", &SECRET[..count]);
                assert!(
                    !mask(&format!("see {token}, or")).contains(&token),
                    "{token}"
                );
                let short = &token[..token.len() - 1];
                check_mask(short, short);
            }
        }
        check_mask(
            "https://api.telegram.org/bot1234567:AAHabcdefghijklmnopqrs/getMe",
            "https://api.telegram.org/bot123456…pqrs/getMe",
        );
        check_mask("in \"sk-abcdefgh\".", "in \"***\".");
    }

    #[test]
    fn h_51_private_keys() {
        for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
            let (begin, end) = (
                format!("-----BEGIN {kind}PRIVATE KEY-----"),
                format!("-----END {kind}PRIVATE KEY-----"),
            );
            check_mask(
                &format!("before\n{begin}\n{SECRET}\n{SECRET}\n{end}\nafter"),
                &format!("before\n{begin}\n…redacted…\n{end}\nafter"),
            );
        }
    }

    #[test]
    fn h_52_short_token_is_three_stars() {
        check_mask("TOKEN=abcdefghijklmnopq", "TOKEN=***");
        check_mask("TOKEN=日本語日本語日本語日本語日本語日本", "TOKEN=***");
    }

    #[test]
    fn h_52_long_token_keeps_six_and_four() {
        check_mask("TOKEN=abcdefghijklmnopqr", "TOKEN=abcdef…opqr");
        check_mask(
            "TOKEN=日本語日本語日本語日本語日本語日本語",
            "TOKEN=日本語日本語…語日本語",
        );
        check_mask("use sk-abcdefghijklmnopqrstuv now", "use sk-abc…stuv now");
    }

    #[test]
    fn h_52_only_the_token_is_replaced() {
        check_mask("abc TOKEN=abc abc", "abc TOKEN=*** abc");
        check_custom("abc-(abc)", "abc-abc", "abc-***");
    }

    #[test]
    fn h_52_a_block_keeps_its_first_and_last_line() {
        let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
        check_mask(
            &format!("PRIVATE_KEY={begin}\r\n{SECRET}\r\n{end}"),
            &format!("PRIVATE_KEY={begin}\n…redacted…\n{end}"),
        );
        // Inside a JSON string it is one line.
        check_mask(
            &format!("{{\"pem\":\"{begin}\\n{SECRET}\\n{end}\\n\"}}"),
            &format!("{{\"pem\":\"{begin}…redacted…{end}\\n\"}}"),
        );
        // The end was cut off; what follows is not part of the key.
        check_mask(
            &format!("{begin}\nProc-Type: 4,ENCRYPTED\n\n{SECRET}\n{SECRET}\nand then"),
            &format!("{begin}\n…redacted…\nand then"),
        );
        check_mask(
            &format!("{begin}\n{SECRET}\nwords\n{begin}\n{SECRET}\n{end}"),
            &format!("{begin}\n…redacted…\nwords\n{begin}\n…redacted…\n{end}"),
        );
        check_mask(
            &format!("it starts with {begin} always"),
            &format!("it starts with {begin} always"),
        );
    }

    #[test]
    fn ac_43_no_twelve_characters_of_a_secret_survive() {
        let secret = format!("sk-{SECRET}");
        let text = format!(
            "{}OPENAI_API_KEY={secret}{}",
            "x ".repeat(1995),
            " y".repeat(100)
        );
        assert_eq!(text.find("OPENAI"), Some(3990));
        let masked = Masker::builtin().mask(&text).unwrap();
        for start in 0..=secret.len() - 12 {
            assert!(!masked.contains(&secret[start..start + 12]));
        }
        assert!(masked.contains("OPENAI_API_KEY=sk-Zq7…0QzX y"));
    }

    #[test]
    fn am_11_custom_expressions() {
        check_custom("hunter[0-9]", "HUNTER2 hunter22", "*** ***2");
        check_custom("/hunter[0-9]/", "HUNTER2 hunter2", "HUNTER2 ***");
        check_custom("/hunter[0-9]/gi", "HUNTER2 hunter2", "*** ***");
        check_custom("/^a.b$/ms", "x\na\nb\nx", "x\n***\nx");
        check_custom("/^a/", "a\na", "***\na");
        check_custom("/usr/local", "in /usr/local", "in ***");
        check_custom(r"/a\/b/", "a/b", "***");
        check_custom("(a)(b)?(x*)", "ab a", "a*** ***");
        check_custom("(?<word>secret) (?:x)", "secret x", "*** x");
        check_custom("x*", "abc", "abc");
    }

    #[test]
    fn am_11_what_is_not_linear_is_refused_with_the_reason() {
        let refused =
            |pattern: &str| Masker::custom(&["fine".to_owned(), pattern.to_owned()]).unwrap_err();
        assert!(
            refused("(?=x)").starts_with("`(?=x)`: look-around"),
            "{}",
            refused("(?=x)")
        );
        assert!(refused(r"(a)\1").contains("backreferences are not supported"));
        assert!(refused("/a/y").contains("`y`"));
        assert!(refused("(a{1000}){1000}").contains("too big"));
        assert!(!refused("(").contains('\n'));
    }

    #[test]
    fn h_50_configured_patterns_replace_the_set_and_nothing_does_not() {
        check_custom("abc", "TOKEN=xyz abc", "TOKEN=xyz ***");
        for nothing in [vec![], vec![" ".to_owned()]] {
            let masker = Masker::custom(&nothing).unwrap();
            assert_eq!(masker.mask("TOKEN=xyz").as_deref(), Some("TOKEN=***"));
        }
        assert_eq!(
            Masker::default().mask("TOKEN=xyz").as_deref(),
            Some("TOKEN=***")
        );
    }

    #[test]
    fn h_52_a_custom_match_that_is_a_block_is_masked_as_one() {
        let block = format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----");
        check_custom(
            "/-----BEGIN[^-]*-----.*-----END[^-]*-----/s",
            &block,
            "-----BEGIN PRIVATE KEY-----\n…redacted…\n-----END PRIVATE KEY-----",
        );
    }

    #[test]
    fn h_54_ac_50_a_million_characters_of_anything() {
        // Each would take hours if a rule read on behind every match; the results say that all was looked at.
        for (seed, expect) in [
            ("-", None),
            ("sk-", Some("sk-sk-…-sk-")),
            ("sk-sk-sk- ", None),
            ("KEY", None),
            ("KEY=", Some("KEY=KEY=KE…KEY=")),
            ("KEY \n", None),
            ("Bearer ", None),
            ("--token", None),
            ("123456:", None),
            ("1234567", None),
            ("-----BEGIN ", None),
            ("-----BEGIN PRIVATE KEY-----\n", None),
            ("\\", None),
            ("ſK", None),
        ] {
            let size = if matches!(seed, "-" | "sk-") {
                1_000_000
            } else {
                200_000
            };
            let text = seed.repeat(size / seed.len());
            assert_eq!(Masker::builtin().mask(&text).as_deref(), expect, "{seed:?}");
        }
    }

    #[test]
    fn h_54_what_is_left_open_is_read_once() {
        let begin = "-----BEGIN PRIVATE KEY-----\n";
        for seed in [
            "KEY=\"a KEY='b KEY=`c ",
            "KEY=\\\"a KEY=\\\\\"b KEY='",
            "\"token\":\"",
            "\"token\":\"a ",
            "\\\"token\\\":\\\\\\\"a ",
            "--token \"x ",
            "key: Authorization: Bearer ",
            &format!("{begin}{SECRET}\n"),
            &format!("{begin}{begin}x: y\n"),
        ] {
            let count = 200_000 / seed.len();
            let (all, half) = (
                mask(&seed.repeat(count)).len(),
                mask(&seed.repeat(count / 2)).len(),
            );
            assert!(all <= 2 * half + 100 && half <= 200_000, "{seed:?}");
        }
        let opened: String = (1..600)
            .map(|count| format!("KEY={}\"x ", "\\".repeat(count)))
            .collect();
        assert!(
            mask(&opened).matches("***").count() > 500,
            "deeper nesting is masked as if there was no quote"
        );
    }

    proptest! {
        #[test]
        fn masking_twice_is_masking_once(
            lines in prop::collection::vec(("(API_KEY=|token: |--password |Bearer |x |\"secret\": )", "\"?", "[!-~é日]{0,40}"), 0..5)
        ) {
            let line = |(before, quote, value): &(String, String, String)| {
                format!("{before}{quote}{}{quote}\n", value.replace(['"', '\'', '`', '\\', '*'], ""))
            };
            let once = mask(&lines.iter().map(line).collect::<String>());
            prop_assert_eq!(mask(&once), once);
        }

        #[test]
        fn an_assigned_secret_never_survives(before in secretive(), name in "[A-Z_]{0,5}(KEY|TOKEN|SECRET|PASSWORD|PASSWD)", after in secretive()) {
            // A quote left open before it makes it part of another value, which is masked with it.
            let masked = mask(&format!("{before}\n\n{name}={SECRET}\n{after}"));
            prop_assert!(!masked.contains(&SECRET[8..32]), "{}", masked);
        }
    }

    /// Text full of what the rules look for.
    fn secretive() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "KEY",
            "token",
            "=",
            ":",
            " ",
            "\n",
            "\"",
            "'",
            "\\",
            "--token ",
            "\"token\":\"",
            "Authorization: ",
            "Bearer ",
            "sk-",
            "ghp_",
            "abcdefgh",
            "Zq7w9xKc2vBn4mLp8sDf",
            "123456",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "é",
            "日",
            "***",
            "…",
            "`",
            "-",
        ]);
        prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
    }
}

#[test]
fn a_block_is_its_lines() {
    let text = clean_block(&Untrusted::new("a\r\nb\u{2028}"));
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        ["a", "b", ""].map(Clean::fixed)
    );
}
