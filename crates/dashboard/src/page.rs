//! The page's own files, compiled in. They are plain modules, so that the served files are
//! identical to the sources.

/// A file of the page: its path, its media type, its text.
pub(crate) type File = (&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

pub(crate) const FILES: [File; 11] = [
    ("/", HTML, include_str!("../page/index.html")),
    ("/icon.svg", SVG, include_str!("../page/icon.svg")),
    ("/style.css", CSS, include_str!("../page/style.css")),
    ("/main.js", JS, include_str!("../page/main.js")),
    ("/state.js", JS, include_str!("../page/state.js")),
    ("/dom.js", JS, include_str!("../page/dom.js")),
    ("/format.js", JS, include_str!("../page/format.js")),
    ("/map.js", JS, include_str!("../page/map.js")),
    ("/chart.js", JS, include_str!("../page/chart.js")),
    ("/views.js", JS, include_str!("../page/views.js")),
    ("/explorer.js", JS, include_str!("../page/explorer.js")),
];

pub(crate) fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|(its, _, _)| *its == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids of elements in a text of the page.
    fn ids(text: &str) -> impl Iterator<Item = &str> {
        let of = move |mark: &'static str| {
            text.split(mark).skip(1).filter_map(|rest| rest.split_once('"').map(|(id, _)| id))
        };
        of(" id=\"").chain(of(" id: \""))
    }

    /// A browser moves the focus to the element that the address names behind its `#`. If that is a
    /// control, the page's keys do nothing from then on.
    #[test]
    fn no_view_has_the_name_of_an_element() {
        let views = file("/views.js").unwrap().2;
        let (_, made) = views.split_once("makeViews = (go) => ({").unwrap();
        let (made, _) = made.split_once("})").unwrap();
        let mut names: Vec<&str> = made
            .split(',')
            .filter_map(|view| view.split_once(": new "))
            .map(|(name, _)| name.trim())
            .collect();
        names.push("explore");
        assert!(names.len() >= 9 && names.contains(&"router"), "{names:?}");
        let all: Vec<&str> = FILES.iter().flat_map(|(_, _, text)| ids(text)).collect();
        assert!(all.contains(&"chosen-router") && all.contains(&"strategies"), "{all:?}");
        assert!(names.iter().all(|name| !all.contains(name)), "{names:?} {all:?}");
    }

    /// Octets of the whole page.
    const PAGE_OCTETS_MAX: usize = 300_000;

    #[test]
    fn the_page_names_no_other_host() {
        let octets: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(octets < PAGE_OCTETS_MAX, "{octets} octets");
        for (path, _, text) in FILES {
            // The name of a document's kind is not an address that a browser requests.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{path} names a host");
            let sinks =
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"];
            assert!(sinks.iter().all(|sink| !text.contains(sink)), "{path} makes markup of text");
        }
        let html = FILES[0].2;
        assert!(
            !html.contains("<style") && !html.contains(" style=") && !html.contains(" onclick="),
            "no inline style"
        );
        assert_eq!(html.matches("<script").count(), html.matches("<script type=\"module\" src=\"/").count());
    }
}
