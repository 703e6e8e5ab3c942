use super::*;
use crate::errno;

fn sample(spec: &OptionSpec) -> String {
    match spec.kind {
        Kind::Text => "/x".into(),
        Kind::Choice(words) => words.iter().find(|word| !word.contains(':')).unwrap().to_string(),
        Kind::Flag => (spec.default != "true").to_string(),
        Kind::ReadOnly => spec.default.into(),
        Kind::Number { min, max } => (min + 1).min(max).to_string(),
    }
}

#[test]
fn every_option_can_be_set_and_read() {
    for spec in OPTIONS {
        if spec.on != For::Producer {
            let mut options = ConsumerOptions::default();
            assert_eq!(options.get(spec.name).as_deref(), Ok(spec.default), "{}", spec.name);
            options.set(spec.name, &sample(spec)).unwrap();
            assert_eq!(options.get(spec.name), Ok(sample(spec)));
        }
        if spec.on != For::Consumer {
            let mut options = ProducerOptions::default();
            assert_eq!(options.get(spec.name).as_deref(), Ok(spec.default), "{}", spec.name);
            if spec.kind == Kind::ReadOnly {
                assert_eq!(options.set(spec.name, "1").unwrap_err().errno(), errno::INVAL);
                continue;
            }
            options.set(spec.name, &sample(spec)).unwrap();
            assert_eq!(options.get(spec.name), Ok(sample(spec)));
        }
    }
}

#[test]
fn publish_options_are_set_by_name() {
    let mut options = PublishOptions::default();
    for (name, value) in
        [("version", "7"), ("manifest", "off"), ("packet_octets_max", "1000"), ("freshness_ms", "0")]
    {
        options.set(name, value).unwrap();
    }
    let fields = (options.version, options.manifest, options.packet_octets_max, options.freshness_ms);
    assert_eq!(fields, (Some(7), Some(ManifestUse::Off), Some(1000), Some(0)));
    assert_eq!(options.set("version", "x").unwrap_err().errno(), errno::INVAL);
    assert_eq!(options.set("router", "x").unwrap_err().errno(), errno::NOPROTOOPT);
}

#[test]
fn invalid_options_and_values_are_refused() {
    let mut options = ConsumerOptions::default();
    assert_eq!(options.set("manifest", "off").unwrap_err().errno(), errno::NOPROTOOPT);
    let unknown = options.get("timeout").unwrap_err().to_string();
    assert!(unknown.starts_with("there is no option 'timeout' here; there are router, "), "{unknown}");
    assert!(unknown.contains(", timeout_ms, ") && !unknown.contains("suite"), "{unknown}");
    let unknown = PublishOptions::default().set("mtu", "path").unwrap_err().to_string();
    assert!(
        unknown
            .ends_with("; there are version, expires_ms, manifest, suite, packet_octets_max, freshness_ms"),
        "{unknown}"
    );
    for spec in OPTIONS.iter().filter(|spec| spec.on == For::Consumer && spec.kind != Kind::Text) {
        for value in ["", "x", "-1"] {
            assert_eq!(
                options.set(spec.name, value).map_err(|e| e.errno()),
                Err(errno::INVAL),
                "{}",
                spec.name
            );
        }
    }
    let error = options.set("congestion", "slow").unwrap_err();
    assert!(error.to_string().ends_with(", raaqm-published, fixed:N"), "{error}");
    let error = ProducerOptions::default().set("packet_octets_max", "9000").unwrap_err();
    assert_eq!(error.to_string(), "option packet_octets_max does not take '9000': a number from 256 to 8800");
}

#[test]
fn every_option_has_a_limit() {
    for spec in OPTIONS.iter().filter(|spec| spec.on == For::Consumer) {
        let Kind::Number { max, .. } = spec.kind else { continue };
        if max == u64::MAX {
            continue;
        }
        let mut options = ConsumerOptions::default();
        options.set(spec.name, &max.to_string()).unwrap();
        let past = options.set(spec.name, &(max + 1).to_string());
        assert_eq!(past.map_err(|e| e.errno()), Err(errno::INVAL), "{}", spec.name);
    }
}
