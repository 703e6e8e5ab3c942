//! Files of testbeds: errors are reported with their line.

use std::path::Path;

use namely_testbed::{Testbed, devices};

const NODES: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n";

fn refusal(rest: &str) -> String {
    Testbed::parse(&format!("{NODES}{rest}"), Path::new("t.toml")).expect_err("a wrong file").to_string()
}

#[test]
fn each_mistake_reports_its_line() {
    for (rest, line, said) in [
        ("[[link]]\nbetween = [\"a\", \"c\"]\n", 6, "no node is called `c`; there are a, b"),
        ("[[link]]\nbetween = [\"a\", \"a\"]\n", 6, "a link from `a` to itself"),
        ("[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"fast\"\n", 7, "`fast` is no rate"),
        ("[[link]]\nbetween = [\"a\", \"b\"]\ndelay = \"5\"\n", 7, "`5` is no time"),
        ("[[link]]\nbetween = [\"a\", \"b\"]\nloss = \"101%\"\n", 7, "`101%` is no share"),
        ("[[link]]\nbetween = [\"a\", \"b\"]\nmtu = 67\n", 6, "an MTU of 67; the kernel takes 68 to 65535"),
        ("[[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n", 8, "two links `a-b`"),
        ("[[link]]\nbetween = [\"a\", \"b\"]\nspeed = 1\n", 7, "unknown field `speed`"),
        ("[[segment]]\nname = \"s\"\nnodes = [\"a\", \"a\"]\n", 7, "`a` is on it twice"),
        (
            "[[segment]]\nname = \"s\"\nnodes = [\"a\"]\nmtus = { b = 127 }\n",
            8,
            "no node of it is called `b`",
        ),
        ("[[node]]\nname = \"a\"\n", 6, "there are two nodes `a`"),
        ("[[node]]\nname = \"../x\"\n", 6, "`../x` is no name"),
        ("[[program]]\nrun = \"true\"\n", 6, "a program needs a `node`"),
        ("[[program]]\nnode = \"a\"\nrun = \"x\"\nafter = [\"y\"]\n", 8, "no program is called `y`"),
        ("[[program]]\nnode = \"a\"\nrun = \"x\"\nafter = [\"x\"]\n", 8, "after itself"),
        ("[[program]]\nnode = \"a\"\nrun = \"ping {addr:b}\"\n", 7, "no link or segment joins"),
        ("[[event]]\nat = \"1s\"\ndown = \"a-b\"\n", 7, "no link or segment is called `a-b`; there is none"),
        ("[[event]]\nat = \"1s\"\nkill = \"a\"\nstart = \"b\"\n", 7, "needs one of"),
    ] {
        let found = refusal(rest);
        assert!(found.starts_with(&format!("t.toml:{line}: ")) && found.contains(said), "{rest}: {found}");
    }
    let empty = Testbed::parse("", Path::new("t.toml")).expect_err("no nodes").to_string();
    assert!(empty.contains("namely testbed init"), "{empty}");
}

#[test]
fn testbed_nodes_have_a_limit() {
    let nodes = |count: usize| (0..count).map(|n| format!("[[node]]\nname = \"n{n}\"\n")).collect::<String>();
    let all: Vec<String> = (0..250).map(|n| format!("\"n{n}\"")).collect();
    let segment = format!("[[segment]]\nname = \"s\"\nnodes = [{}]\n", all.join(","));
    let testbed = Testbed::parse(&(nodes(250) + &segment), Path::new("t.toml")).unwrap();
    assert_eq!(devices(&testbed).last().unwrap().addresses.ipv4(), "10.0.0.250");
    let more = Testbed::parse(&nodes(251), Path::new("t.toml")).unwrap_err().to_string();
    assert!(more.contains("251 nodes; 250 are the most"), "{more}");
    let link = |n: usize| format!("[[link]]\nname = \"l{n}\"\nbetween = [\"n0\", \"n1\"]\n");
    let links = |count: usize| nodes(2) + &(0..count).map(link).collect::<String>();
    assert_eq!(Testbed::parse(&links(1000), Path::new("t.toml")).unwrap().networks().len(), 1000);
    let more = Testbed::parse(&links(1001), Path::new("t.toml")).unwrap_err().to_string();
    assert!(more.contains("more than 1000 links"), "{more}");
}

#[test]
fn devices_are_numbered_per_node() {
    let file = format!(
        "{NODES}[[node]]\nname = \"c\"\n[[link]]\nbetween = [\"a\", \"b\"]\nmtu = 9000\nmtus = {{ b = 127 }}\n\
         [[segment]]\nname = \"lan\"\nnodes = [\"c\", \"a\"]\n"
    );
    let testbed = Testbed::parse(&file, Path::new("t.toml")).unwrap();
    let all: Vec<String> = devices(&testbed)
        .iter()
        .map(|d| format!("{} {} {} {}", d.node, d.name, d.mtu, d.addresses.ipv4()))
        .collect();
    assert_eq!(
        all,
        ["a eth0 9000 10.0.0.1", "b eth0 127 10.0.0.2", "c eth0 1500 10.0.1.1", "a eth1 1500 10.0.1.2"]
    );
}

#[test]
fn testbed_files_have_a_size_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.toml");
    let text = format!("{NODES}# ");
    let most = namely_testbed::file::FILE_OCTETS_MAX as usize;
    std::fs::write(&path, format!("{text}{}", "x".repeat(most - text.len()))).unwrap();
    assert_eq!(Testbed::load(&path).unwrap().nodes.len(), 2);
    std::fs::write(&path, format!("{text}{}", "x".repeat(most + 1 - text.len()))).unwrap();
    assert!(Testbed::load(&path).unwrap_err().to_string().contains("is this a testbed?"));
}
