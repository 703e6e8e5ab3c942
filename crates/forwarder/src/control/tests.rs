//! Races of the control path, taken apart: what happens between two of its steps.

use alloc::sync::Arc;

use super::*;
use crate::config::Config;

#[test]
fn what_is_entered_for_a_face_after_its_release_is_refused_and_swept() {
    let forwarder = Forwarder::<Arc<[u8]>, parking_lot::RawMutex>::new(Config::new(|_| [0; 32]), 1).unwrap();
    let id = forwarder.face_register(FaceProperties::application()).unwrap();
    let key = forwarder.key_of(id).unwrap();
    forwarder.face_release(id).unwrap();
    let name: Name = "/a".parse().unwrap();
    assert_eq!(forwarder.enter_nexthop(name.as_name(), key, 0), Err(FibError::NoFace));
    assert_eq!(forwarder.enter_binding(name.as_name(), key), Err(BindError::NoFace));
    let sizes = forwarder.table_sizes();
    assert_eq!((sizes.fib, sizes.bindings), (0, 0));
}
